"""Work on the metadata of every call, done by an interceptor before its method is looked up.

On the threads server interceptors run in the one thread that takes calls from the network, so
their work comes before the pool and before a call can be refused. On asyncio it is the loop.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import grpc

from kvstore.server.settings import ServerSettings

Pair = tuple[str, str | bytes]
"""One piece of metadata: its name, and text or (under names that end in -bin) bytes."""


def as_text(method: str, metadata: Iterable[Pair]) -> str:
    """What a server that logs its calls would print: the method, then a line for each pair."""
    return "\n".join([method, *(f"    {name}: {value!r}" for name, value in metadata)])


class ReadHeaders(grpc.ServerInterceptor):  # type: ignore[misc]  # grpcio tells no types
    """Reads all metadata of a call and writes it out as text, `times` times over."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.latest = ""
        """The text of the latest call."""

    def intercept_service(
        self, continuation: Callable[[Any], Any], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Do the work, then let the call go on."""
        self._read(handler_call_details)
        return continuation(handler_call_details)

    def _read(self, details: grpc.HandlerCallDetails) -> None:
        for _ in range(self._times):
            self.latest = as_text(details.method, details.invocation_metadata or ())


class AsyncReadHeaders(ReadHeaders, grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """The same on an event loop."""

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Do the work, then let the call go on."""
        self._read(handler_call_details)
        return await continuation(handler_call_details)


def interceptors(settings: ServerSettings) -> list[ReadHeaders]:
    """The interceptors that the settings ask for; none by default."""
    kind = AsyncReadHeaders if settings.use_asyncio else ReadHeaders
    return [kind(settings.metadata_work)] if settings.metadata_work else []
