"""Check before a run that client and server agree about encryption.

gRPC only reports that a connection cannot be made. This module makes one TLS handshake with
Python's `ssl`, which says why.
"""

import socket
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvstore.client.errors import ServerNotReached, TlsMismatch

HANDSHAKE_S = 3.0
"""Seconds to wait for each step of the handshake."""

_EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 10, 62, 64
"""Codes of OpenSSL for the reason why a certificate was not accepted."""
_UNKNOWN_AUTHORITY = "Give the authority that signed it with --ca FILE"
_OTHER_NAME = "Connect to one of the names in the certificate, or give this name with --server-name"
_NEXT = {
    _EXPIRED: "Make a new one for the server, such as with `course.py certificate`",
    _WRONG_NAME: _OTHER_NAME,
    _WRONG_ADDRESS: _OTHER_NAME,
}
_REQUIRED = "it requires a client certificate that it knows: give --cert and --key"


def check_encryption(target: Any) -> None:
    """Return if the server accepts connections as `target`, a `channel.Target`, opens them.

    Raises:
        ServerNotReached: nothing listens at the address.
        TlsMismatch: the message says which side expects what, and what to give.
    """
    host, _, port = target.address.rpartition(":")
    host = host.strip("[]")
    try:
        connection = socket.create_connection((host, int(port)), HANDSHAKE_S)
    except OSError as error:
        raise ServerNotReached(
            f"nothing listens at {target.address} ({error}): is the server running?"
        ) from None
    with connection:
        connection.settimeout(HANDSHAKE_S)
        if target.tls is None:
            if _speaks_tls(connection, host):
                raise TlsMismatch(
                    f"the server at {target.address} encrypts its connections: give --tls, and"
                    " --ca FILE if its certificate is signed by an authority of your own. In"
                    " Python: Target(address, tls=Tls.of(folder))"
                )
            return
        _check_certificates(connection, target, host)


def explained(error: ServerNotReached, target: Any) -> ServerNotReached:
    """Return the mismatch behind a connection that could not be made; else the error itself."""
    try:
        check_encryption(target)
    except TlsMismatch as mismatch:
        return mismatch
    except ServerNotReached:
        pass
    return error


def _speaks_tls(connection: socket.socket, host: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(connection, server_hostname=host):
            return True
    except ssl.SSLError as error:
        # An alert comes from a server that speaks TLS; a server in plain text sends other bytes.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _check_certificates(connection: socket.socket, target: Any, host: str) -> None:
    tls = target.tls
    assert tls is not None
    context = ssl.create_default_context(
        cadata=tls.ca.decode("ascii", "replace") if tls.ca else None
    )
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # gRPC is not so strict
    context.set_alpn_protocols(["h2"])
    where = f"the server at {target.address}"
    try:
        if tls.certificate and tls.key:
            _load_certificate(context, tls.certificate, tls.key)
        with context.wrap_socket(connection, server_hostname=tls.server_name or host) as secure:
            # With TLS 1.3 the server judges the client's certificate after the handshake. A server
            # that accepts it sends its HTTP/2 settings.
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            if not secure.recv(1):
                raise TlsMismatch(f"{where} closed the connection after the handshake: {_REQUIRED}")
    except ssl.SSLCertVerificationError as error:
        raise TlsMismatch(
            f"the certificate of {where} is not accepted:"
            f" {error.verify_message.rstrip('.')}."
            f" {_NEXT.get(error.verify_code, _UNKNOWN_AUTHORITY)}"
        ) from None
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        if "CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason:
            hint = _REQUIRED
        elif "WRONG_VERSION" in reason or "RECORD" in reason:
            hint = "it does not encrypt its connections: leave out --tls, --ca, --cert and --token"
        else:
            hint = "check --ca, --cert and --key"
        raise TlsMismatch(f"no TLS connection to {where} ({reason}): {hint}") from None
    except TlsMismatch:
        raise
    except OSError as error:
        raise TlsMismatch(
            f"{where} ended the TLS handshake ({error}): it may not encrypt its connections, then"
            " leave out --tls"
        ) from None


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # `ssl` reads a certificate from files only.
    with tempfile.TemporaryDirectory(prefix="kvstore-tls-") as folder:
        files = Path(folder) / "certificate.pem", Path(folder) / "key.pem"
        for file, text in zip(files, (certificate, key), strict=True):
            file.touch(0o600)
            file.write_bytes(text)
        with suppress(FileNotFoundError):
            context.load_cert_chain(*files)
