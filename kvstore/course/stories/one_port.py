"""Several servers on one port (SO_REUSEPORT), and which of them a new connection reaches.

Plain sockets, since it is the kernel that chooses, before any RPC and knowing nothing of keys.
"""

import select
import socket
import sys
from contextlib import ExitStack

HOST = "127.0.0.1"


def known_here() -> bool:
    """Whether this system shares a port out; others refuse, or give all to the latest comer."""
    return sys.platform.startswith("linux") and hasattr(socket, "SO_REUSEPORT")


def reached(servers: int, connections: int) -> list[int]:
    """Which of so many servers on one port each of the connections came to, one after the other.

    Raises `OSError` where the system does not let them share one: see `known_here`.
    """
    with ExitStack() as open_sockets:
        listening: list[socket.socket] = []
        port = 0
        for _ in range(servers):
            each = open_sockets.enter_context(socket.socket())
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            each.bind((HOST, port))
            each.listen()
            port = each.getsockname()[1]
            listening.append(each)
        return [_asked_once(listening, port) for _ in range(connections)]


def _asked_once(listening: list[socket.socket], port: int) -> int:
    with socket.create_connection((HOST, port), timeout=5):
        (chosen, *_), _, _ = select.select(listening, [], [], 5)
        chosen.accept()[0].close()
        return listening.index(chosen)
