"""Make what a server on another address needs: `course.py class certificate FOLDER --host NAME`.

Written are the server's certificate and its key, the certificate of the authority that signed it,
and a token. The authority's key is not written: nothing can be signed with it any more, and a new
certificate has a new authority.
"""

import argparse
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import trustme

from kvstore.credentials import CA, CERTIFICATE, KEY, TOKEN

DAYS: Final = 90
"""Days for which a certificate is valid, unless another number is given."""
HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Names that every certificate has: those of the machine for itself."""


class Refused(ValueError):
    """The files cannot be made as wanted."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = argparse.ArgumentParser(
        prog="course.py class certificate",
        description="Make a certificate and a token for a server that other machines can reach.",
    )
    parse.add_argument("folder", metavar="FOLDER", help="a new folder for the files")
    parse.add_argument(
        "--host",
        metavar="NAME",
        nargs="+",
        default=[],
        action="extend",
        help="names or IP addresses by which clients reach the server",
    )
    parse.add_argument(
        "--days",
        type=int,
        default=DAYS,
        metavar="N",
        help=f"days until the certificate expires (default {DAYS})",
    )
    options = parse.parse_args(arguments)
    try:
        expires = write(Path(options.folder), options.host, options.days)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"{options.folder} has a certificate for {', '.join(names(options.host))}.\n"
        f"It expires on {expires:%d %B %Y, %H:%M} UTC.\n\n"
        f"On the server:   python -m kvstore.server --listen 0.0.0.0 --tls {options.folder}\n"
        f"For each client: copy {CA} and {TOKEN}, and no other file. Then\n"
        f"                 rpcload HOST:PORT --ca {CA} --token {TOKEN}"
    )
    return 0


def names(hosts: Sequence[str]) -> list[str]:
    """Return every name of the certificate once."""
    return list(dict.fromkeys([*hosts, *HERE]))


def write(folder: Path, hosts: Sequence[str], days: int = DAYS) -> datetime:
    """Write the files into the folder; return when the certificate expires.

    Raises `Refused` if the folder has one of the files, or a name or the days make no sense.
    """
    if not 1 <= days <= 825:  # the most that some systems accept
        raise Refused(f"--days must be from 1 to 825, got {days}")
    existing = [name for name in (CA, CERTIFICATE, KEY, TOKEN) if (folder / name).exists()]
    if existing:
        raise Refused(
            f"{folder} has {', '.join(existing)} already, and clients may use them:"
            " name a new folder"
        )
    expires = datetime.now(UTC) + timedelta(days=days)
    files = contents(names(hosts), expires)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        # Made as a new file that only its owner may read: never wider for a moment.
        with open(folder / name, "xb", opener=lambda path, how: os.open(path, how, 0o600)) as file:
            file.write(content)
    return expires


def contents(hosts: Sequence[str], expires: datetime) -> Mapping[str, bytes]:
    """Return the content of the files by name, for a certificate with these names."""
    authority = trustme.CA(path_length=0, organization_name="RPC throughput course")
    for host in hosts:
        try:
            if {"/", "@"} & set(host):  # networks and addresses of mail, for trustme
                raise ValueError
            authority.issue_cert(host)
        except ValueError:
            raise Refused(
                f"--host must be a name or an IP address, without a port, got {host!r}"
            ) from None
    server = authority.issue_cert(*hosts, not_after=expires)
    (certificate,) = server.cert_chain_pems
    return {
        CA: authority.cert_pem.bytes(),
        CERTIFICATE: certificate.bytes(),
        KEY: server.private_key_pem.bytes(),
        TOKEN: f"{secrets.token_urlsafe(32)}\n".encode(),
    }


if __name__ == "__main__":
    sys.exit(main())
