"""A channel that sends a token with every call.

gRPC's own call credentials start a thread for each call, which costs more than the call itself.
"""

from collections.abc import Callable
from typing import Any

import grpc

from kvstore.credentials import HEADER, SCHEME


def with_token(channel: Any, token: str) -> Any:
    """Return a channel of the same API, `grpc` or `grpc.aio`, whose calls carry the token."""
    kind = AioTokenChannel if isinstance(channel, grpc.aio.Channel) else TokenChannel
    return kind(channel, token)


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
        self, how: Callable[..., Any], request: Any = None, timeout: float | None = None,
        metadata: Any = None, credentials: Any = None, wait_for_ready: bool | None = None,
        compression: Any = None,
    ) -> Any:  # fmt: skip
        return how(
            request,
            timeout=timeout,
            metadata=(*(metadata or ()), self._pair),
            credentials=credentials,
            wait_for_ready=wait_for_ready,
            compression=compression,
        )


class _Methods:
    """The four shapes of methods, for either API."""

    def __init__(self, channel: Any, token: str) -> None:
        self._channel = channel
        self._pair = (HEADER, f"{SCHEME}{token}")

    def unary_unary(self, *how: Any, **named: Any) -> Any:
        """A method with one request and one reply."""
        return _Method(self._channel.unary_unary(*how, **named), self._pair)

    def unary_stream(self, *how: Any, **named: Any) -> Any:
        """A method with one request and many replies."""
        return _Method(self._channel.unary_stream(*how, **named), self._pair)

    def stream_unary(self, *how: Any, **named: Any) -> Any:
        """A method with many requests and one reply."""
        return _Method(self._channel.stream_unary(*how, **named), self._pair)

    def stream_stream(self, *how: Any, **named: Any) -> Any:
        """A method with many requests and many replies."""
        return _Method(self._channel.stream_stream(*how, **named), self._pair)


class TokenChannel(_Methods, grpc.Channel):  # type: ignore[misc]
    """A channel of `grpc` whose calls carry a token."""

    def subscribe(self, callback: Callable[[Any], object], try_to_connect: bool = False) -> None:
        """As `grpc.Channel.subscribe`."""
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], object]) -> None:
        """As `grpc.Channel.unsubscribe`."""
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        """Close the connection; calls in flight end as CANCELLED."""
        self._channel.close()

    def __enter__(self) -> "TokenChannel":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AioTokenChannel(_Methods, grpc.aio.Channel):  # type: ignore[misc]
    """A channel of `grpc.aio` whose calls carry a token."""

    def get_state(self, try_to_connect: bool = False) -> Any:
        """As `grpc.aio.Channel.get_state`."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: Any) -> None:
        """As `grpc.aio.Channel.wait_for_state_change`."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """As `grpc.aio.Channel.channel_ready`."""
        await self._channel.channel_ready()

    async def close(self, grace: float | None = None) -> None:
        """Close the connection; calls still in flight after `grace` seconds end as CANCELLED."""
        await self._channel.close(grace)

    async def __aenter__(self) -> "AioTokenChannel":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
