"""The code on the board, such as K7QX-2M4P-9R3T, and the certificate that it stands for.

The first two groups are the fingerprint of the server's certificate, so a student's client accepts
this server and no other. The fingerprint is slow to compute: a certificate with the same one takes
2^40 trials of a tenth of a second. The last group is a word that the server asks for, because
anybody who reaches the server can compute the fingerprint.
"""

import hashlib
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NAME: Final = "rpc-throughput-class"
"""The host name in every certificate: the address of a laptop changes, so it does not count."""
DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's digits: none of them looks like another one on a board."""
_ALIKE: Final = str.maketrans("OIL", "011", "- \t\n")
_WORD: Final = 4
_FINGERPRINT: Final = 8
_VALID: Final = timedelta(days=3650)
"""Before and after today: the client knows this very certificate, and its clock may be wrong."""


class CodeError(ValueError):
    """A code cannot be one, or a server is not the one that the code stands for."""


class Code(NamedTuple):
    """What is written on the board."""

    fingerprint: str
    word: str

    def __str__(self) -> str:
        whole = self.fingerprint + self.word
        return "-".join(whole[at : at + 4] for at in range(0, len(whole), 4))


class Identity(NamedTuple):
    """What makes a class the same one after a restart."""

    certificate: bytes
    """PEM, as the private key."""
    key: bytes
    code: Code


def parsed(code: str) -> Code:
    """Return the code that was typed; dashes, spaces and small letters do not matter.

    Raises CodeError for what is no code.
    """
    digits = str(code).upper().translate(_ALIKE)
    if len(digits) != _FINGERPRINT + _WORD or not set(digits) <= set(DIGITS):
        raise CodeError(
            f"a code has three groups of four letters or digits, such as K7QX-2M4P-9R3T, got "
            f"{code!r}: type what is on the board"
        )
    return Code(digits[:_FINGERPRINT], digits[_FINGERPRINT:])


def new_identity() -> Identity:
    """Make a certificate, its key and the code."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(today - _VALID)
        .not_valid_after(today + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    word = "".join(secrets.choice(DIGITS) for _ in range(_WORD))
    return Identity(
        pem,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        Code(fingerprint(pem), word),
    )


def fingerprint(pem: bytes) -> str:
    """Return the 40 bits of a certificate that are in its code; it takes a tenth of a second."""
    der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))
    digest = hashlib.scrypt(
        der, salt=NAME.encode(), n=2**15, r=8, p=1, maxmem=2**26, dklen=5 * _FINGERPRINT // 8
    )
    number = int.from_bytes(digest, "big")
    return "".join(DIGITS[number >> 5 * at & 31] for at in reversed(range(_FINGERPRINT)))


def certificate_of(host: str, port: int, code: Code, timeout_s: float) -> bytes:
    """Return the certificate of the server at this address, in PEM.

    Raises CodeError when it is not the one of the code, OSError when no server answers.
    """
    pem = ssl.get_server_certificate((host, port), timeout=timeout_s).encode("ascii")
    if not secrets.compare_digest(fingerprint(pem), code.fingerprint):
        raise CodeError(
            f"the server at {host}:{port} is not the one of the code {code}: compare the address "
            "and the code with the board. Nothing was sent"
        )
    return pem
