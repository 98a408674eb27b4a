"""A certificate and a token: what a server on another address needs, and its clients.

`course.py class certificate FOLDER` writes the files. The server reads all of them but `ca.pem`. A
client needs `ca.pem` and `token.txt`.
"""

import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc

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
            f" expected. `course.py class certificate FOLDER` writes such a file, {TOKEN}"
        )
    return token


# TLS credentials, and the token that `admission.DemandToken` demands of each call.


class Access(NamedTuple):
    """What a server needs to be reached by strangers."""

    credentials: grpc.ServerCredentials
    token: str


def access_from(folder: str) -> Access:
    """Return the access that the files in a folder describe.

    Raises `OSError` with the next step if one of them is missing or does not fit, or if other users
    of this machine can read the key or the token.
    """
    files = Path(folder) / CERTIFICATE, Path(folder) / KEY
    make = f"`python3 course.py class certificate {folder} --host NAME` makes what --tls needs"
    try:
        certificate, key = (file.read_bytes() for file in files)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files, password=b"")
        token = read_token(Path(folder) / TOKEN)
    except ssl.SSLError as error:
        raise OSError(
            f"{files[0]} and {files[1]} are no certificate and its key"
            f" ({error.reason or error}): {make}, in a new folder"
        ) from None
    except OSError as error:
        raise OSError(f"{error.filename}: {error.strerror}: {make}") from None
    except ValueError as error:
        raise OSError(str(error)) from None
    if opened := _open_to_others(Path(folder)):
        raise OSError(
            f"other users of this machine can read {opened} or replace it: `chmod 700 {folder}`"
            f" keeps them out. If one may have read it, {make}, in a new folder"
        )
    return Access(grpc.ssl_server_credentials([(key, certificate)]), token)


def _open_to_others(folder: Path) -> Path | None:
    """Return a secret that others than its owner can read or replace; None if there is none."""
    if os.name != "posix":
        return None
    reached = folder.stat().st_mode & 0o077
    for secret in (folder / KEY, folder / TOKEN):
        mode = secret.stat().st_mode
        if reached & 0o022 or (reached & 0o011 and mode & 0o066):
            return secret
    return None


# A channel that sends a token with every call.
#
# gRPC's own call credentials start a thread for each call, which costs more than the call itself.


_SHAPES: Final = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
"""The methods of a channel, of `grpc` or `grpc.aio`, that make a method of a service."""


class TokenChannel:
    """A channel of `grpc` or of `grpc.aio` whose calls carry a token; else it is the given one."""

    def __init__(self, channel: Any, token: str) -> None:
        self._channel = channel
        self._pair = (HEADER, f"{SCHEME}{token}")

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._channel, name)
        if name not in _SHAPES:
            return attribute
        return lambda *how, **named: _Method(attribute(*how, **named), self._pair)

    def __enter__(self) -> "TokenChannel":
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.close()

    async def __aenter__(self) -> "TokenChannel":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._channel.close()


class _Method:
    """A method of any shape: it adds the token to the metadata of the call."""

    def __init__(self, method: Any, pair: tuple[str, str]) -> None:
        self._method = method
        self._pair = pair

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._call(self._method, *arguments, **named)

    def with_call(self, *arguments: Any, **named: Any) -> Any:
        return self._call(self._method.with_call, *arguments, **named)

    def future(self, *arguments: Any, **named: Any) -> Any:
        return self._call(self._method.future, *arguments, **named)

    def _call(
        self,
        how: Callable[..., Any],
        request: Any = None,
        timeout: float | None = None,
        metadata: Any = None,
        credentials: Any = None,
        wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> Any:
        return how(
            request,
            timeout=timeout,
            metadata=(*(metadata or ()), self._pair),
            credentials=credentials,
            wait_for_ready=wait_for_ready,
            compression=compression,
        )
