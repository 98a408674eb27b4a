"""A TCP relay between a client and a server that breaks their connection in a chosen way.

It forwards whole HTTP/2 frames, so a frame can be dropped, changed or put in between two others.
Everything is on the loopback interface, in threads of this process that end with the block.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from proofs import http2

UP, DOWN = "up", "down"
"""From the client to the server, and from the server to the client."""

Rewrite = Callable[[str, bytes], bytes | None]
"""A function of the direction and one frame: what to forward instead; None forwards nothing."""


class Relay:
    """Forwards between its own address and a server's; `cut`, `reset` and others break it."""

    def __init__(self, server: str) -> None:
        self._host, _, port = server.rpartition(":")
        self._port = int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.rewrite: Rewrite = lambda direction, frame: frame
        """Applied to every frame from now on."""
        self.on_accept: Callable[[socket.socket], bool] = lambda client: True
        """Whether to connect an accepted client with the server."""
        self.bytes_per_s = 0.0
        """Limit on each direction of each connection; 0 is no limit."""
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._start(self._accept)

    def black_hole(self, *directions: str) -> None:
        """Forward nothing more in these directions; connections stay open."""
        self.rewrite = lambda direction, frame: None if direction in directions else frame

    def inject(self, frame: bytes) -> None:
        """Send this to every client once, in the middle of a reply: then its call is still open."""
        waiting = {id(server) for _, server in self._now()}
        before = self.rewrite

        def with_it(direction: str, each: bytes) -> bytes | None:
            forwarded = before(direction, each)
            number = getattr(self._here, "pair", 0)
            of_a_call, ends_it = any(each[5:9]), each[4] & http2.END_STREAM
            if direction == DOWN and number in waiting and of_a_call and not ends_it:
                waiting.discard(number)
                return (forwarded or b"") + frame
            return forwarded

        self.rewrite = with_it

    def reset(self) -> None:
        """Abort every connection with a TCP reset; new ones are accepted."""
        for pair in self._now():
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._close(pair, socket.SHUT_RD)  # in both directions, it would send an orderly end

    def cut(self) -> None:
        """End every connection in an orderly way; new ones are accepted."""
        for pair in self._now():
            self._close(pair)

    def leave(self) -> None:
        """Stop listening: a new connection is refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """End everything and join the threads."""
        self._closed = True
        self.leave()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    # ---- inside --------------------------------------------------------------------------------

    _here = threading.local()

    def _now(self) -> list[tuple[socket.socket, socket.socket]]:
        with self._lock:
            return list(self._pairs)

    def _start(self, work: Callable[..., object], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket()
            with self._lock:
                self._pairs.append((client, server))
            try:
                if not self.on_accept(client):
                    continue
                server.connect((self._host, self._port))
            except OSError:
                self._close((client, server))
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._pump, UP, client, server, server)
            self._start(self._pump, DOWN, server, client, server)

    def _pump(
        self, direction: str, source: socket.socket, target: socket.socket, pair: socket.socket
    ) -> None:
        self._here.pair = id(pair)
        waits = b""
        head = len(http2.PREFACE) if direction == UP else 0
        try:
            while chunk := source.recv(1 << 16):
                waits += chunk
                if head and len(waits) >= head:
                    target.sendall(waits[:head])
                    waits, head = waits[head:], 0
                while not head and (size := _first_frame(waits)):
                    frame, waits = waits[:size], waits[size:]
                    if (forwarded := self.rewrite(direction, frame)) is not None:
                        self._send(target, forwarded)
        except OSError:
            pass
        self._close((source, target))

    def _send(self, target: socket.socket, forwarded: bytes) -> None:
        if not self.bytes_per_s:
            target.sendall(forwarded)
            return
        for at in range(0, len(forwarded), 16):
            piece = forwarded[at : at + 16]
            time.sleep(len(piece) / self.bytes_per_s)
            target.sendall(piece)

    def _close(
        self, pair: tuple[socket.socket, socket.socket], how: int = socket.SHUT_RDWR
    ) -> None:
        with self._lock:
            self._pairs = [each for each in self._pairs if not {*each} & {*pair}]
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(how)  # else a thread would wait in `recv` without end
            end.close()


def _first_frame(waits: bytes) -> int:
    """Return the size of the first frame; 0 if it is not whole yet."""
    if len(waits) < 9:
        return 0
    size = 9 + int.from_bytes(waits[:3], "big")
    return size if len(waits) >= size else 0


@contextmanager
def relaying(server: str) -> Iterator[Relay]:
    """Yield a relay to this address while the block lasts."""
    relay = Relay(server)
    try:
        yield relay
    finally:
        relay.close()
