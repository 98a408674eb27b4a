"""A TCP relay between a client and a server that breaks their connections in a chosen way.

Everything is on the loopback interface, in threads of this process that end with the block.
"""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UP, DOWN = "up", "down"
"""From the client to the server, and from the server to the client."""

Pair = tuple[socket.socket, socket.socket]


class Relay:
    """Forwards between its own address and a server's, until one of its methods breaks that."""

    def __init__(self, server: str) -> None:
        self.server = server
        """The address with which clients are connected from now on."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.on_accept: Callable[[socket.socket], bool] = lambda client: True
        """Whether to connect an accepted client with the server."""
        self.latency_s = 0.0
        self._holes: tuple[str, ...] = ()
        self._pairs: list[Pair] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._start(self._accept)

    def black_hole(self, *directions: str) -> None:
        """Forward nothing more in these directions; connections stay open."""
        self._holes = directions

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
        self.leave()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _now(self) -> list[Pair]:
        with self._lock:
            return list(self._pairs)

    def _start(self, work: Callable[..., object], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="relay", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
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
                host, _, port = self.server.rpartition(":")
                server.connect((host, int(port)))
            except OSError:
                self._close((client, server))
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._pump, UP, client, server)
            self._start(self._pump, DOWN, server, client)

    def _pump(self, direction: str, source: socket.socket, target: socket.socket) -> None:
        try:
            while chunk := source.recv(1 << 16):
                if self.latency_s and direction == DOWN:
                    time.sleep(self.latency_s)
                if direction not in self._holes:
                    target.sendall(chunk)
        except OSError:
            pass
        self._close((source, target))

    def _close(self, pair: Pair, how: int = socket.SHUT_RDWR) -> None:
        with self._lock:
            self._pairs = [each for each in self._pairs if not {*each} & {*pair}]
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(how)  # else a thread would wait in `recv` without end
            end.close()


@contextmanager
def relaying(server: str) -> Iterator[Relay]:
    """Yield a relay to this address while the block lasts."""
    relay = Relay(server)
    try:
        yield relay
    finally:
        relay.close()
