"""The public exceptions of the client."""

import grpc

from kvstore.measure.run import Run


def printable(text: str) -> str:
    r"""Return text that may come from a peer with its control characters as escapes: \x1b.

    A terminal would obey them. Line ends stay.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


_HINTS = {
    "Expected SETTINGS frame": "an HTTP/1 server or proxy answers there, and gRPC needs HTTP/2 on"
    " the whole way",
    "http1.x server": "an HTTP/1 server or proxy answers there, and gRPC needs HTTP/2 on the whole"
    " way",
    "metadata size exceeds": "the server limits the metadata of a call (gRPC refuses some calls"
    " above 8 kB and all above 16 kB): send less, or raise grpc.max_metadata_size in the server",
    "SERVER: Received message larger": "the limit is the server's: raise it there"
    " (grpc.max_receive_message_length), or send less",
    "larger than max": "permit it with --max-message-bytes; if the limit is the server's, raise it"
    " there",
}
"""What helps, by what gRPC says."""


def hint_of(details: str) -> str:
    """Return what helps against an error of gRPC, from its text; empty if that is not known."""
    return next((hint for text, hint in _HINTS.items() if text in details), "")


class ServerNotReached(ConnectionError):
    """No server answers at the address."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class TlsMismatch(ServerNotReached):
    """Client and server do not agree about encryption, certificates or the token."""


class WrongServer(RuntimeError):
    """A server answers at the address, but it is not the server that was started."""


class FleetNotReached(RuntimeError):
    """The fleet of a run cannot be used: no Dask, no scheduler, too few workers."""


class ConnectionsShared(RuntimeError):
    """The server sees fewer connections than were requested."""


class MessageTooLarge(ValueError):
    """A request is over gRPC's limit; it was not sent."""


class NotEnoughMemory(MemoryError):
    """The machine has too little free memory for a safe run."""


class StreamBroken(grpc.RpcError, ConnectionError):  # type: ignore[misc]
    """A stream ended with an error, or before every request on it was answered.

    It has a status like any other error of gRPC, so `except grpc.RpcError` catches it.
    """

    def __init__(self, message: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(printable(message))
        self._code = code

    def code(self) -> grpc.StatusCode:
        """Return the status of the stream; UNKNOWN where the server closed it as OK."""
        return self._code

    def details(self) -> str:
        """Return what happened, in words."""
        return str(self)


class StrategyStuck(RuntimeError):
    """A strategy did not return, although no operation was left and every call had ended."""


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C came during a run; `run` holds every call until then."""

    def __init__(self, run: Run) -> None:
        super().__init__(f"interrupted, with every call accounted for: {run!r}")
        self.run = run


class RunFailed(RuntimeError):
    """A run ended before its time; `run` holds every call until then."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(printable(message))
        self.run = run


class ServerGone(RunFailed):
    """The server ended during the run, or no server listens at its address any more."""
