"""What students call: `Join` and `Vote`, on an event loop, over TLS, with limits against floods."""

import asyncio
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import grpc

from kvstore.classroom.store import Ballot, Store
from kvstore.v1 import classroom_pb2 as messages
from kvstore.v1 import classroom_pb2_grpc

STUDENTS_MOST: Final = 400
PER_ADDRESS_MOST: Final = 100
"""Voters from one address; only this machine itself may have all of them."""
NAME_MOST: Final = 40
BALLOTS_MOST: Final = 200
"""Ballots in one call."""
SECRET_BYTES: Final = 16

_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # else a second class could take half of the calls of the first
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_metadata_size", 8 * 1024),
    ("grpc.max_concurrent_streams", 20),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 120_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)
_CALLS_MOST: Final = 256
"""Calls at once: the others are refused, and clients come again."""


class Buckets:
    """Token buckets by key: `per_s` tokens come in a second, up to `most`."""

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s, self._most = per_s, most
        self._left: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def has(self, key: object) -> bool:
        """Whether a token is left."""
        return self._now(key)[0] >= 1

    def take(self, key: object) -> bool:
        """Take a token; return whether there was one."""
        left, now = self._now(key)
        self._left[key] = (max(0.0, left - 1), now)
        self._left.move_to_end(key)
        if len(self._left) > 5_000:  # a flood with ever new keys takes no memory
            self._left.popitem(last=False)
        return left >= 1

    def _now(self, key: object) -> tuple[float, float]:
        now = time.monotonic()
        left, before = self._left.get(key, (self._most, now))
        return min(self._most, left + self._per_s * (now - before)), now


class Classroom(classroom_pb2_grpc.ClassroomServiceServicer):
    """The service of one class."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._word = store.identity.code.word
        self._calls = Buckets(per_s=5, most=60)
        """Of each voter."""
        self._wrong = Buckets(per_s=1 / 6, most=10)
        """Wrong words of each address."""
        self._wrong_of_all = Buckets(per_s=1, most=60)
        """With 2^20 words, a guess takes a week on average."""

    async def Join(self, request: messages.JoinRequest, context: Any) -> messages.JoinResponse:
        """Let a voter in."""
        address = _address(context)
        if not (self._wrong.has(address) and self._wrong_of_all.has(None)):
            why = "too many wrong codes: wait a minute"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        right = hmac.compare_digest(request.word.encode(), self._word.encode())
        if not right or len(request.voter_secret) != SECRET_BYTES:
            if self._wrong.take(address):  # one address alone keeps no other from joining
                self._wrong_of_all.take(None)
            why = "the code is wrong: type what is on the board"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)
        name = "".join(filter(str.isprintable, request.name))[:NAME_MOST].strip()
        mine = address in ("127.0.0.1", "[::1]")
        try:
            joined = await asyncio.to_thread(
                lambda: self._store.join(
                    request.voter_secret,
                    name,
                    address,
                    most=STUDENTS_MOST,
                    per_address=STUDENTS_MOST if mine else PER_ADDRESS_MOST,
                )
            )
        except OverflowError:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the class is full")
        return messages.JoinResponse(joined=joined)

    async def Vote(self, request: messages.VoteRequest, context: Any) -> messages.VoteResponse:
        """Write the ballots of a voter to the disk, then confirm them."""
        arrived_at = time.time()
        voter = await asyncio.to_thread(self._store.voter, request.voter_secret)
        if voter is None:
            why = "this voter has not joined: call `join` again"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)
            raise AssertionError("abort has raised")
        if not self._calls.take(voter) or len(request.ballots) > BALLOTS_MOST:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many votes: wait a moment")
        ballots = [_ballot(each) for each in request.ballots]
        refused = await asyncio.to_thread(self._store.vote, voter, ballots, arrived_at)
        kept = [each.sequence for each in ballots if each.sequence not in refused]
        return messages.VoteResponse(kept=kept, refused=refused)


def _ballot(sent: messages.Ballot) -> Ballot:
    kind = sent.WhichOneof("answer")
    return Ballot(
        sent.sequence,
        sent.question_id,
        sent.value if kind == "value" else None,
        sent.choice if kind == "choice" else None,
        sent.unit,
        sent.age_s,
    )


def _address(context: Any) -> str:
    """Return the address of the peer without its port."""
    return (
        str(context.peer())
        .partition(":")[2]
        .rpartition(":")[0]
        .replace("%5B", "[")
        .replace("%5D", "]")
    )


async def serve(store: Store, host: str, port: int, started: Callable[[int], None]) -> None:
    """Serve the class until the task is cancelled; `started` is called once, with the port.

    A call whose path is no UTF-8 ends the server of grpcio 1.85 (see docs/threat_model.md). The
    class begins a new one on the same port: its votes are on the disk.
    Raises OSError when the port is taken.
    """
    classroom, first = Classroom(store), True
    while True:
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=_CALLS_MOST)
        classroom_pb2_grpc.add_ClassroomServiceServicer_to_server(classroom, server)
        pair = (store.identity.key, store.identity.certificate)
        try:
            port = server.add_secure_port(f"{host}:{port}", grpc.ssl_server_credentials([pair]))
        except RuntimeError as error:
            raise OSError(f"{host}:{port} cannot be opened: another program may use it") from error
        await server.start()
        if first:
            started(port)
        first = False
        try:
            await server.wait_for_termination()
            return
        except UnicodeDecodeError:
            await server.stop(None)
        except asyncio.CancelledError:
            await server.stop(0.5)
            raise
