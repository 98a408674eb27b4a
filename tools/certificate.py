"""Make what a server on another address needs: `course.py class certificate FOLDER --host NAME`.

Written are the server's certificate and its key, the certificate of the authority that signed it,
and a token. The authority's key is not written: nothing can be signed with it any more, and a new
certificate has a new authority.
"""

import argparse
import ipaddress
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kvstore.credentials import CA, CERTIFICATE, KEY, TOKEN

DAYS: Final = 90
"""Days for which a certificate is valid, unless another number is given."""
HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Names that every certificate has: those of the machine for itself."""
EARLIER: Final = timedelta(hours=1)
"""How long before now a certificate becomes valid: the clocks of two machines differ."""


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
        "--host", metavar="NAME", nargs="+", default=[], action="extend",
        help="names or IP addresses by which clients reach the server",
    )  # fmt: skip
    parse.add_argument(
        "--days", type=int, default=DAYS, metavar="N",
        help=f"days until the certificate expires (default {DAYS})",
    )  # fmt: skip
    given = parse.parse_args(arguments)
    try:
        expires = write(Path(given.folder), given.host, given.days)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"{given.folder} has a certificate for {', '.join(names(given.host))}.\n"
        f"It expires on {expires:%d %B %Y, %H:%M} UTC.\n\n"
        f"On the server:   python -m kvstore.server --listen 0.0.0.0 --tls {given.folder}\n"
        f"For each client: copy {CA} and {TOKEN}, and no other file. Then\n"
        f"                 python -m kvstore.client HOST:PORT --ca {CA} --token {TOKEN}"
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
    found = [name for name in (CA, CERTIFICATE, KEY, TOKEN) if (folder / name).exists()]
    if found:
        raise Refused(
            f"{folder} has {', '.join(found)} already, and clients may use them: name a new folder"
        )
    now = datetime.now(UTC)
    expires = now + timedelta(days=days)
    files = made(names(hosts), now - EARLIER, expires)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        # Made as a new file that only its owner may read: never wider for a moment.
        with open(folder / name, "xb", opener=lambda path, how: os.open(path, how, 0o600)) as file:
            file.write(content)
    return expires


def made(hosts: Sequence[str], begins: datetime, expires: datetime) -> Mapping[str, bytes]:
    """Return the content of the files by name, for a certificate with these names."""
    authority, key = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    issuer = _name("RPC throughput course, authority")
    base = x509.CertificateBuilder().issuer_name(issuer).not_valid_before(begins)
    base = base.not_valid_after(expires)
    signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())

    def signed(
        subject: x509.Name,
        of: ec.EllipticCurvePrivateKey,
        extensions: Mapping[x509.ExtensionType, bool],
    ) -> bytes:
        """Return the certificate of a public key, signed by the authority."""
        built = base.subject_name(subject).public_key(of.public_key())
        built = built.serial_number(x509.random_serial_number())
        always = {
            x509.SubjectKeyIdentifier.from_public_key(of.public_key()): False,
            signed_by: False,
        }
        for extension, critical in {**always, **extensions}.items():
            built = built.add_extension(extension, critical)
        certificate = built.sign(authority, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM)

    return {
        CA: signed(issuer, authority, {
            x509.BasicConstraints(ca=True, path_length=0): True,
            _usage(key_cert_sign=True, crl_sign=True): True,
        }),
        CERTIFICATE: signed(_name("RPC throughput course, server"), key, {
            x509.BasicConstraints(ca=False, path_length=None): True,
            _usage(digital_signature=True): True,
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]): False,
            x509.SubjectAlternativeName([_host(each) for each in hosts]): False,
        }),
        KEY: key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        TOKEN: f"{secrets.token_urlsafe(32)}\n".encode(),
    }  # fmt: skip


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(**used: bool) -> x509.KeyUsage:
    kinds = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{kind: used.get(kind, False) for kind in kinds})


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise Refused(
            f"--host must be a name or an IP address, without a port, got {name!r}"
        ) from None


if __name__ == "__main__":
    sys.exit(main())
