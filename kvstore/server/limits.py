"""What a server accepts: settings of gRPC that decide whether a call is ever seen.

Each is here because its default bites without a word, none because it is faster: they neither
bring throughput nor cost any, as `course.py bench settings` measures.
"""

from kvstore.server.settings import ServerSettings

STREAM_REQUESTS = 16_384
"""Requests of one stream that may be in the server's hands; it reads no more until one is
answered, and HTTP/2 flow control makes the client wait."""

MANY = 2**31 - 1


def channel_options(settings: ServerSettings) -> list[tuple[str, int]]:
    """Options for `grpc.server` and `grpc.aio.server`."""
    # Two servers may share a port by default, and calls go to either of them.
    options = [("grpc.so_reuseport", 0)]
    if settings.max_streams is not None:
        options.append(("grpc.max_concurrent_streams", settings.max_streams))
    if not settings.refuse_streams:
        options.append(("grpc.http.overload_protection", 0))
    if settings.default_limits:
        return options
    # A default server cancels thousands of the calls of a burst of 10,000.
    return [
        *options,
        ("grpc.server.max_pending_requests", MANY),
        ("grpc.server.max_pending_requests_hard_limit", MANY),
    ]
