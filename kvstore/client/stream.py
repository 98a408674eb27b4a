"""One open pipeline: requests go out one after the other, replies come back in any order."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from kvstore.client.batch import Batch, batch_of, verify
from kvstore.client.requests import stream_request
from kvstore.client.workload import Operation
from kvstore.codes import CREATE, NO_ANSWER, OK
from kvstore.stations import UNKNOWN_STATIONS, StationTimes
from kvstore.v1 import kvstore_pb2 as pb

if TYPE_CHECKING:
    from kvstore.client.client import Client


class StreamBroken(ConnectionError):
    """The stream ended before every request was answered."""


class Stream:
    """Sends requests on one call and matches each reply to its request by the id it carries.

    Leaving the block says that no more will be sent and waits for the last reply. When
    the stream breaks, each request that has no reply is recorded as NO_ANSWER (the server
    may have done it or not) and `StreamBroken` is raised.
    """

    def __init__(
        self,
        client: "Client",
        pipeline: Callable[..., Any],
        on_reply: Callable[[], object],
        connection: int = 0,
        shard: int = 0,
    ) -> None:
        self.shard = shard
        """The server it speaks to, of several: it takes operations on that one's keys only."""
        self._client = client
        self._connection = connection
        self._pipeline = pipeline
        self._on_reply = on_reply
        self._waiting: dict[int, tuple[float, Batch]] = {}
        """By its id each request that has no reply yet: when it was sent, and what it carries."""
        self._next_id = 0
        self._broken: StreamBroken | None = None
        self._why_cancelled = "it was cancelled"

    async def __aenter__(self) -> "Stream":
        self._call = self._pipeline(metadata=self._client.metadata)
        self._receiver = asyncio.create_task(self._receive())
        self._watch_deadline()
        return self

    async def send(self, operations: Batch | Sequence[Operation]) -> None:
        """Send one request that carries these operations; do not wait for its reply.

        Raises `StreamBroken` once the stream has ended.
        """
        batch = operations if isinstance(operations, Batch) else batch_of(operations)
        if batch.due_s > 0:  # never so in a closed loop, where it is NaN
            await self._client.until_due(batch)
        if self._broken is not None:
            raise self._broken
        self._next_id += 1
        request = stream_request(self._next_id, batch)
        self._waiting[self._next_id] = self._client.asending(batch.count), batch
        try:
            await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
            if _task_is_cancelled():
                raise
            await self._receiver  # it learns why, and accounts for what is waiting
            raise self._broken or self._break("the server closed it") from None

    async def _receive(self) -> None:
        """Match replies to requests until the stream ends."""
        call = self._call  # the stream lets go of it, perhaps before this task has come to its end
        try:
            while (reply := await call.read()) is not grpc.aio.EOF:
                self._record(*self._waiting[reply.id], reply)
                del self._waiting[reply.id]
                self._on_reply()
            if self._waiting:
                self._break("the server closed it")
        except grpc.aio.AioRpcError as error:
            self._break(f"{error.code().name}: {error.details()}")
        except asyncio.CancelledError:
            self._break(self._why_cancelled)
            if _task_is_cancelled():
                raise
        except Exception as strange:  # a reply that no request of ours asked for
            call.cancel()
            self._break(f"a reply made no sense: {strange!r}")

    def _record(self, sent_s: float, batch: Batch, reply: pb.PipelineResponse) -> None:
        client, statuses, values = self._client, reply.statuses, list(reply.values)
        ok = statuses.count(OK)
        if len(statuses) != batch.count:
            raise ValueError(f"{len(statuses)} statuses for {batch.count} operations")
        read_bytes = batch.written_bytes
        if values != batch.written:
            verify(batch, statuses, values)
            read_bytes = sum(map(len, values))
        client.recorder.record(
            batch.due_s,
            sent_s,
            client.now_s(),
            batch.kind,
            OK if ok == batch.count else next(filter(None, statuses)),
            batch.payload_bytes,
            read_bytes,
            _times_of(reply) if client.tells_times else UNKNOWN_STATIONS,
            batch.count,
            ok,
            self._connection,
        )
        if CREATE in batch.kinds:
            for kind, key, status in zip(batch.kinds, batch.keys, statuses, strict=True):
                if kind == CREATE and status == OK:
                    self._client.created(key)

    def _break(self, why: str) -> StreamBroken:
        """Account for every request without a reply, and let a waiting sender go on."""
        unanswered, self._waiting = self._waiting, {}
        self._broken = broken = StreamBroken(
            f"the stream broke ({why}) with {len(unanswered)} requests unanswered: they are"
            " recorded as NO_ANSWER, because the server may have done them"
        )
        for sent_s, batch in unanswered.values():
            self._client.recorder.record(
                batch.due_s, sent_s, self._client.now_s(), batch.kind, NO_ANSWER,
                batch.payload_bytes, 0, UNKNOWN_STATIONS, batch.count, 0,
                self._connection,
            )  # fmt: skip
            self._on_reply()
        return broken

    def _watch_deadline(self) -> None:
        """Break the stream when the oldest request has waited longer than the deadline.

        A timer, not a task: the traceback of a task that was cancelled refers to this stream,
        and keeps its call, and with it the connection, until garbage is collected.
        """
        deadline_s = self._client.deadline_s
        oldest = next(iter(self._waiting.values()), None)
        if oldest is not None and self._client.now_s() - oldest[0] > deadline_s:
            self._why_cancelled = f"no reply within the deadline of {deadline_s:g} s"
            self._call.cancel()
        again_s = min(1.0, deadline_s / 4)
        self._watcher = asyncio.get_running_loop().call_later(again_s, self._watch_deadline)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                if self._broken is None:
                    await self._call.done_writing()
                await self._receiver
                if self._broken is not None:
                    raise self._broken
            else:
                self._call.cancel()
                await asyncio.gather(self._receiver, return_exceptions=True)
        finally:
            self._watcher.cancel()
            if not self._receiver.done():  # cancelled on the way out: it accounts for what waits
                self._call.cancel()
                await asyncio.gather(self._receiver, return_exceptions=True)
            del self._call  # an error's traceback refers to this stream: it may live for long


def _task_is_cancelled() -> bool:
    """Whether this task is to end, rather than only the call that it waits for.

    gRPC raises the same error for both. Let out of its task for a call, it would end the
    task as if nobody had wanted it any more, and the run as if all had gone well.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _times_of(reply: pb.PipelineResponse) -> StationTimes:
    if not reply.HasField("station_times"):
        return UNKNOWN_STATIONS
    told = reply.station_times
    return StationTimes(told.pool_s, told.lock_s, told.disk_s, told.rest_s)
