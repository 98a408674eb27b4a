"""Work on the metadata of every call, done by an interceptor before its method is looked up.

With threads, interceptors run in the single thread that takes calls from the network. So their work
comes before the pool and before a call can be refused. With asyncio, they run on the event loop.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc

from kvstore.server.access import Access, AsyncDemandToken, DemandToken
from kvstore.server.settings import ServerSettings

Pair = tuple[str, str | bytes]
"""One metadata entry: its name, and text or (for names that end in -bin) bytes."""


def as_text(method: str, metadata: Iterable[Pair]) -> str:
    """Return the log entry of a call: the method, then a line for each metadata entry."""
    return "\n".join([method, *(f"    {name}: {value!r}" for name, value in metadata)])


class ReadHeaders(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio has no types
    """Reads all metadata of a call and formats it as text, `times` times."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.latest = ""
        """The text of the latest call."""

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Do the work, then continue with the call."""
        self._read(handler_call_details)
        return continuation(handler_call_details)

    def _read(self, details: grpc.HandlerCallDetails) -> None:
        for _ in range(self._times):
            self.latest = as_text(details.method, details.invocation_metadata or ())


class AsyncReadHeaders(ReadHeaders, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """`ReadHeaders` on an event loop."""

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Do the work, then continue with the call."""
        self._read(handler_call_details)
        return await continuation(handler_call_details)


def interceptors(
    settings: ServerSettings, access: Access | None = None
) -> list[grpc.ServerInterceptor]:
    """Return the interceptors of these settings, the token's first; none by default."""
    found: list[grpc.ServerInterceptor] = []
    if access is not None:
        found.append((AsyncDemandToken if settings.use_asyncio else DemandToken)(access.token))
    if settings.metadata_work:
        kind = AsyncReadHeaders if settings.use_asyncio else ReadHeaders
        found.append(kind(settings.metadata_work))
    return found
