"""Connect to a server, in plain text or with TLS, and check that it is the right one."""

import json
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import grpc
import psutil

from kvstore.client.address import endpoints, several
from kvstore.client.errors import ServerNotReached, TlsMismatch, WrongServer
from kvstore.credentials import CA, REFUSED, TOKEN, TokenChannel, read_token
from kvstore.protocol import OWN_CONNECTION
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc

CONNECT_S = 5.0
"""Seconds to wait for a server before `ServerNotReached`."""

OPTIONS = [
    OWN_CONNECTION,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]
"""With gRPC's own back-off, a server that is back after 1 s is found up to 4 s later."""

NOT_REACHED = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Statuses of a first call whose connection was not established."""

DROPPED = grpc.StatusCode.CANCELLED
"""Status of a call that a server of gRPC drops before a method sees it.

It drops some at random while over 1,000 calls wait to be accepted. Calls whose deadline has passed
while they waited are among them, until the server comes to them.
"""
REPEAT_S = 0.05
"""Seconds before a request that was dropped is made again."""

_NO_REPORT = (
    # How servers answer a method they do not have; the first status is the standard one.
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    # How servers answer a call without the metadata that they require.
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The settings of encrypted connections: certificates in the PEM format.

    The client's own `certificate` and `key` are for servers that require one. Raises `ValueError`
    for only one of the two. `Tls.of(folder)` reads what `course.py class certificate` made.
    """

    ca: bytes | None = None
    """The certificates that sign the server's; None: those that gRPC brings along."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host of the address."""
    token: str | None = field(default=None, repr=False)
    """A word that each call carries as `authorization: Bearer TOKEN`."""

    @classmethod
    def of(cls, folder: str | Path) -> "Tls":
        """Return what the files `ca.pem` and `token.txt` of a folder say.

        Raises `OSError` for a missing file, and `ValueError` for a file without a token.
        """
        return cls(ca=Path(folder, CA).read_bytes(), token=read_token(Path(folder, TOKEN)))

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError(
                "a client certificate needs its private key, and a key needs its certificate: give"
                " both or none"
            )


class Target(NamedTuple):
    """The server of a run."""

    address: str
    identity: str | None = None
    """The identity that the server must report; None when it was started by hand."""
    tls: Tls | None = None
    """How its connections are encrypted; None: they are not."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further options of its channels, by gRPC's names."""

    @property
    def shards(self) -> list["Target"]:
        """The server, or each of several whose addresses are separated by commas."""
        addresses = several(self.address)
        known = None if self.identity is None else self.identity.split(",")
        identities: list[str] | list[None] = known or [None] * len(addresses)
        return [
            Target(address, identity, self.tls, self.options)
            for address, identity in zip(addresses, identities, strict=True)
        ]

    def channel(self, api: Any = grpc, service_config: Mapping[str, Any] | None = None) -> Any:
        """Return a new channel of `grpc` or `grpc.aio`, with a connection of its own.

        `service_config` is gRPC's, such as one with a retryPolicy.
        """
        tls = self.tls
        options: list[tuple[str, Any]] = [*OPTIONS, *self.options]
        if service_config:
            options.append(("grpc.service_config", json.dumps(service_config)))
        if tls is None:
            return api.insecure_channel(self.address, options=options)
        if tls.server_name is not None:
            options.append(("grpc.ssl_target_name_override", tls.server_name))
        credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
        channel = api.secure_channel(self.address, credentials, options=options)
        return channel if tls.token is None else TokenChannel(channel, tls.token)


def target_of(server: object) -> Target:
    """Return the target for a `Server` of `serving()`, or for an address such as 127.0.0.1:40123.

    Raises `ValueError` for anything else.
    """
    if isinstance(server, str):
        server = Target(server)
    if isinstance(server, Target):
        addresses = several(server.address)
        if len(set(addresses)) < len(addresses):
            raise ValueError(
                f"each server has one shard, so give each address once, got {server.address!r}"
            )
        for each in addresses:
            endpoints(each)
        if server.identity and server.identity.count(",") != len(addresses) - 1:
            raise ValueError(
                f"each server has an identity: got {server.address!r} and {server.identity!r}"
            )
        return server
    address, identity = getattr(server, "address", None), getattr(server, "identity", None)
    if not isinstance(address, str):
        if hasattr(server, "__enter__"):
            raise ValueError(
                "this server was not started: write `with serving() as server:` and make the run in"
                " that block, with `server`"
            )
        raise ValueError(
            "server must be what `with serving() as server:` gives, or an address such as"
            f" '127.0.0.1:40123', got {server!r}"
        )
    folder = getattr(getattr(server, "settings", None), "tls", None)
    return target_of(Target(address, identity, Tls.of(folder) if folder else None))


@contextmanager
def connected(target: Target) -> Iterator[tuple[grpc.Channel, pb.GetServerStatusResponse]]:
    """Yield a channel to the target, after checking its identity, and the status it reported.

    A server without a status service is accepted, with an empty status, unless the target has an
    identity.

    Raises:
        ServerNotReached: no server answered within `CONNECT_S`.
        TlsMismatch: one listens, but the two do not agree about encryption or the token.
        WrongServer: the identity is not the expected one.
    """
    if len(target.shards) > 1:
        raise ValueError(
            f"the target must be one server, got {len(target.shards)}: {target.address}"
        )
    with target.channel() as channel:
        try:
            status = server_status(channel, target, CONNECT_S, wait_for_ready=True)
        except ServerNotReached as error:
            raise explained(error, target) from None
        if target.identity is not None and status.identity != target.identity:
            raise WrongServer(
                f"the server at {target.address} has the identity {status.identity!r},"
                f" but {target.identity!r} was started: another program has taken the port."
                " Start the server again."
            )
        yield channel, status


def server_status(
    channel: grpc.Channel, target: Target, timeout_s: float, *, wait_for_ready: bool = False
) -> pb.GetServerStatusResponse:
    """Return the status that the server reports: its identity, settings and counts.

    It is empty when the server has no such method, as other services have none: the server is
    there, and that is enough for a run. Raises `ServerNotReached`, and `TlsMismatch` for a token
    that the server refuses.
    """
    stub = server_status_pb2_grpc.ServerStatusServiceStub(channel)
    try:
        return _report(stub, timeout_s, wait_for_ready)
    except grpc.RpcError as error:
        raise_if_refused(error, target)
        if error.code() in _NO_REPORT:
            return pb.GetServerStatusResponse()
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise ServerNotReached(
                f"the server at {target.address} refused the status request (RESOURCE_EXHAUSTED:"
                f" {error.details()}): it has as many calls as it accepts. Repeat this when they"
                " have ended, or start the server with a larger max_concurrent_rpcs."
            ) from None
        raise ServerNotReached(
            f"no server answers at {target.address} ({error.code().name} after"
            f" {timeout_s:g} s). Is it running? `with serving() as server:` starts one,"
            " and it ends with its block."
        ) from None


def _report(stub: Any, timeout_s: float, wait_for_ready: bool) -> pb.GetServerStatusResponse:
    end_s = time.monotonic() + timeout_s
    while True:
        left_s = max(0.0, end_s - time.monotonic())
        try:
            answer: pb.GetServerStatusResponse = uninterrupted(
                lambda left_s=left_s: stub.GetServerStatus(  # type: ignore[misc]
                    pb.GetServerStatusRequest(), timeout=left_s, wait_for_ready=wait_for_ready
                )
            )
            return answer
        except grpc.RpcError as error:
            if error.code() is not DROPPED or left_s < REPEAT_S:
                raise
        time.sleep(REPEAT_S)


def raise_if_refused(error: Any, target: Target) -> None:
    """Raise `TlsMismatch` if a call failed because the server demands another token, or any."""
    if (error.details() or "").startswith(REFUSED):
        raise TlsMismatch(f"the server at {target.address} refused the call: {error.details()}")


def local_pids(status: pb.GetServerStatusResponse, target: Target) -> list[int]:
    """Return the process ids of the server if it runs on this machine; empty if they are unknown.

    The server reports its process id. If it does not, these are the processes that listen on its
    port, as far as the system lets us see them.
    """
    if status.process_id:
        return [status.process_id] if status.host_name == socket.gethostname() else []
    places = endpoints(target.address)
    ports = {each.port for each in places if each.port and each.is_loopback}
    if not ports:
        return []
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS shows sockets of other processes to root only
        return []
    listening = {
        each.pid
        for each in sockets
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port in ports
    }
    return sorted(pid for pid in listening if pid is not None and pid != os.getpid())


# Check before a run that client and server agree about encryption.
#
# gRPC only reports that a connection cannot be made. This module makes one TLS handshake with
# Python's `ssl`, which says why.


HANDSHAKE_S = 3.0
"""Seconds to wait for each step of the handshake."""

_EXPIRED, _WRONG_NAME, _WRONG_ADDRESS = 10, 62, 64
"""Codes of OpenSSL for the reason why a certificate was not accepted."""
_UNKNOWN_AUTHORITY = "Give the authority that signed it with --ca FILE"
_OTHER_NAME = "Connect to one of the names in the certificate, or give this name with --server-name"
_NEXT = {
    _EXPIRED: "Make a new one for the server, such as with `course.py class certificate`",
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
    if target.tls is None:
        if _speaks_tls(target.address):
            raise TlsMismatch(
                f"the server at {target.address} encrypts its connections: give --tls, and"
                " --ca FILE if its certificate is signed by an authority of your own. In"
                " Python: Target(address, tls=Tls.of(folder))"
            )
        return
    _check_certificates(target)


def explained(error: ServerNotReached, target: Any) -> ServerNotReached:
    """Return the mismatch behind a connection that could not be made; else the error itself."""
    try:
        check_encryption(target)
    except TlsMismatch as mismatch:
        return mismatch
    except ServerNotReached:
        pass
    return error


def _connected(
    context: ssl.SSLContext, address: str, server_name: str | None = None
) -> ssl.SSLSocket:
    """Return a connection to the server, with the TLS handshake still to do.

    A connection that is wrapped once it exists stays open if the server has reset it meanwhile, so
    the socket is wrapped first.
    """
    reason: OSError | None = None
    for family, place, host in _places(address):
        connection = context.wrap_socket(
            socket.socket(family, socket.SOCK_STREAM),
            server_hostname=server_name or host,
            do_handshake_on_connect=False,
        )
        try:
            connection.settimeout(HANDSHAKE_S)
            connection.connect(place)
        except OSError as error:
            connection.close()
            reason = error
        else:
            return connection
    raise ServerNotReached(f"nothing listens at {address} ({reason}): is the server running?")


def _places(address: str) -> Iterator[tuple[int, Any, str]]:
    """Yield the family and the place of each socket address behind an address, and its host."""
    for each in endpoints(address):
        if each.path:
            yield socket.AF_UNIX, each.path, "localhost"
            continue
        try:
            infos = socket.getaddrinfo(each.host, each.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ServerNotReached(f"{each.host} has no address ({error}): is it right?") from None
        for family, _, _, _, place in infos:
            yield family, place, each.host


def presented_certificate(address: str) -> tuple[bytes, str]:
    """Return the certificate that the server presents, in PEM, and a name in it.

    Nobody has verified it: this is for a user who decides to trust whoever answers at the address.
    Raises `ServerNotReached`, and `TlsMismatch` if there is no such certificate.
    """
    context = _trusting()
    try:
        with _connected(context, address) as connection:
            connection.do_handshake()
            pem = ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True) or b"")
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags = ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=pem)
        with _connected(context, address) as connection:
            connection.do_handshake()
            shown: dict[str, Any] = dict(connection.getpeercert() or {})
    except (ssl.SSLError, OSError) as error:
        if isinstance(error, ServerNotReached):
            raise
        raise TlsMismatch(
            f"the certificate of the server at {address} cannot be trusted as it is ({error})"
        ) from None
    names = [name for _, name in shown.get("subjectAltName", ())]
    names += [
        value for part in shown.get("subject", ()) for key, value in part if key == "commonName"
    ]
    return pem.encode("ascii"), names[0] if names else ""


def _trusting() -> ssl.SSLContext:
    """Return a context that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _speaks_tls(address: str) -> bool:
    with _connected(_trusting(), address) as connection:
        try:
            connection.do_handshake()
        except ssl.SSLError as error:
            # An alert comes from a server that speaks TLS; one in plain text sends other bytes.
            return "ALERT" in (error.reason or "")
        except OSError:
            return False
        return True


def _check_certificates(target: Any) -> None:
    tls = target.tls
    assert tls is not None
    where = f"the server at {target.address}"
    try:
        context = ssl.create_default_context(
            cadata=tls.ca.decode("ascii", "replace") if tls.ca else None
        )
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # gRPC is not so strict
        # It trusts a certificate without its authority, too.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.set_alpn_protocols(["h2"])
        if tls.certificate and tls.key:
            _load_certificate(context, tls.certificate, tls.key)
        with _connected(context, target.address, tls.server_name) as secure:
            secure.do_handshake()
            if secure.selected_alpn_protocol() != "h2":
                raise TlsMismatch(
                    f"{where} encrypts its connections and does not offer HTTP/2 in the handshake"
                    " (ALPN h2), without which gRPC ends them: enable HTTP/2 in the server, or in"
                    " the proxy in front of it"
                )
            # With TLS 1.3 the server judges the client's certificate after the handshake. A server
            # that accepts it sends its HTTP/2 settings; one that does not may have gone already.
            answer = b""
            with suppress(ConnectionError):
                secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            with suppress(ConnectionError):
                answer = secure.recv(1)
            if not answer:
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
    except ServerNotReached:
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


# Work that Ctrl-C must not interrupt.


Result = TypeVar("Result")


def uninterrupted(work: Callable[[], Result]) -> Result:
    """Do the work in a thread of its own and return its result; Ctrl-C ends the wait, not the work.

    Python raises `KeyboardInterrupt` in the main thread between any two instructions. gRPC's code
    does not support this: closing the channel waits for ever for a call that was started but not
    yet given to the thread that ends it. Raises what the work raises.
    """
    done: Future[Result] = Future()

    def worked() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # raised again by the waiting thread
            done.set_exception(error)

    threading.Thread(target=worked, name="uninterruptible", daemon=True).start()
    while not done.done():
        wait([done], 1.0)  # without end it could not be interrupted on Windows
    return done.result()
