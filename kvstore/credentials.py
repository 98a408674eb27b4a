"""What a server on another address needs, and its clients: a certificate and a token.

`course.py certificate FOLDER` writes the files. The server reads all of them but `ca.pem`. A client
needs `ca.pem` and `token.txt`.
"""

import re
from pathlib import Path
from typing import Final

CA: Final = "ca.pem"
"""The certificate of the authority that signed the server's; for clients."""
CERTIFICATE: Final = "server.pem"
KEY: Final = "server-key.pem"
TOKEN: Final = "token.txt"
"""The word that each call has to carry; for server and clients."""

HEADER: Final = "authorization"
"""The metadata of a call that has the token, after the word Bearer."""
SCHEME: Final = "Bearer "
REFUSED: Final = "this server requires a token"
"""How the server's answer to a call without the right token begins."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,1024}")


def read_token(path: str | Path) -> str:
    """Return the token in a file. Raises `OSError`, or `ValueError` without the file's content."""
    token = Path(path).read_bytes().decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{path} holds no token: one line of 16 or more letters, digits and ._~+/=- is"
            f" expected. `course.py certificate FOLDER` writes such a file, {TOKEN}"
        )
    return token
