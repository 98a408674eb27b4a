"""Who may call a server: TLS credentials, and an interceptor that demands a token.

Without the setting `tls` there is neither, and no interceptor is in the way of a call.
"""

import hmac
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from kvstore.credentials import CERTIFICATE, HEADER, KEY, REFUSED, SCHEME, TOKEN, read_token

WHY = (
    f"{REFUSED}: the call has none, or another one. Give the client the server's {TOKEN}, with"
    " --token FILE or as the `token` of its Tls"
)


class Access(NamedTuple):
    """What a server needs to be reached by strangers."""

    credentials: grpc.ServerCredentials
    token: str


def access_from(folder: str) -> Access:
    """Return the access that the files in a folder describe.

    Raises `OSError` with the next step if one of them is missing or does not fit.
    """
    files = Path(folder) / CERTIFICATE, Path(folder) / KEY
    make = f"`python3 course.py certificate {folder} --host NAME` makes what --tls needs"
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
    return Access(grpc.ssl_server_credentials([(key, certificate)]), token)


class DemandToken(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Refuses every call that does not carry the token, before its method is looked up."""

    def __init__(self, token: str) -> None:
        self._expected = f"{SCHEME}{token}".encode()
        self._refusal = grpc.stream_stream_rpc_method_handler(self._refuse)
        """For calls of every shape: it reads no message, so it waits for none."""

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Continue with a call that has the token; answer any other with UNAUTHENTICATED."""
        if self._carries_token(handler_call_details):
            return continuation(handler_call_details)
        return self._refusal

    def _carries_token(self, details: grpc.HandlerCallDetails) -> bool:
        for name, value in details.invocation_metadata or ():
            if name == HEADER:
                found = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
                return hmac.compare_digest(found, self._expected)  # its time says nothing
        return False

    def _refuse(self, requests: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, WHY)


class AsyncDemandToken(DemandToken, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """`DemandToken` on an event loop."""

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Continue with a call that has the token; answer any other with UNAUTHENTICATED."""
        if self._carries_token(handler_call_details):
            return await continuation(handler_call_details)
        return self._refusal

    async def _refuse(self, requests: Any, context: Any) -> Any:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, WHY)
