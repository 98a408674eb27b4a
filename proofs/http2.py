"""HTTP/2 by hand: frames, header blocks and gRPC messages, for peers that break the rules.

Frames: RFC 9113, section 4. Header blocks: RFC 7541, literals without indexing and without Huffman
codes. gRPC: its document PROTOCOL-HTTP2, a prefix of 5 bytes before each message.
"""

import socket
import struct
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
LARGEST_STREAM = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return one frame. The stream may be any number; 31 bits of it are sent."""
    head = struct.pack(">I", len(payload) & 0xFFFFFF)[1:]
    return head + bytes([kind, flags]) + struct.pack(">I", stream & LARGEST_STREAM) + payload


def header_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the headers as literals without indexing."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)


def _text(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, sizes = len(text) - 127, bytearray([127])
    while rest >= 128:
        sizes.append(rest % 128 + 128)
        rest //= 128
    return bytes([*sizes, rest]) + text


def grpc_headers(path: str, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a gRPC call of this path, such as /package.Service/Method."""
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *more,
    ]


def message(body: bytes, *, compressed: int = 0, length: int | None = None) -> bytes:
    """Return a gRPC message; `length` overrides the number in its prefix."""
    return struct.pack(">BI", compressed, len(body) if length is None else length) + body


def call(stream: int, path: str, body: bytes) -> bytes:
    """Return the frames of one unary call."""
    return frame(HEADERS, END_HEADERS, stream, header_block(grpc_headers(path))) + frame(
        DATA, END_STREAM, stream, message(body)
    )


def opening() -> bytes:
    """Return the first bytes of a client's connection."""
    return PREFACE + frame(SETTINGS, 0, 0)


def connected(address: str, timeout_s: float = 2.0) -> socket.socket:
    """Return a TCP socket that is connected to host:port; nothing is sent yet."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout_s)


def connection(address: str, timeout_s: float = 2.0) -> AbstractContextManager[socket.socket]:
    """Connect to host:port while the block lasts."""
    return closing(connected(address, timeout_s))
