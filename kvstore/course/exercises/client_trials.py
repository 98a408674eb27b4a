"""Trials of a learner's client: a sender whose calls are held, and a client of a stream.

The judge decides which call ends next and with which status. It then waits for what the sender has
to do, so the judgement does not depend on the speed of the machine.
"""

import functools
import queue
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from kvstore.client import measured_channel
from kvstore.course.exercises import AnswerFailed, controlled_time
from kvstore.course.exercises.puppet import PATIENCE_S, Arrived, Puppet, Script, served
from kvstore.course.stubs import WrappedStub
from kvstore.measure.run import Run
from kvstore.protocol import NOT_FOUND, OK, OWN_CONNECTION
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer, KeyValueServiceStub

WAIT_S: Final = 2.0
"""A sender that has not done in this time what it can do at once will not do it."""
GRACE_S: Final = 0.1
"""A sender that may send no more is watched for this long."""
HELD: Final = Script(always=b"v", longest_s=60.0)
"""Every call waits until the judge ends it."""
POLLING_S: Final = 0.0005
"""A thread that waits takes no CPU time; one that polls takes more than this in `GRACE_S`."""


class Requests(Iterator[Any]):
    """Hands out requests one at a time and counts them; `ready` may block before each."""

    def __init__(self, requests: Iterable[Any], ready: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._requests, self._ready = iter(requests), ready
        self._lock = threading.Lock()

    def __next__(self) -> Any:
        with self._lock:
            self._ready()
            request = next(self._requests)
            self.count += 1
            return request


class Sender:
    """The learner's function in a thread of its own, with a stub on a measured channel."""

    def __init__(
        self, answer: Callable[..., Any], arguments: Sequence[Any], channel: Any = None
    ) -> None:
        self.result: Any = None
        self._channel = channel
        self._errors: list[BaseException] = []
        self._call = functools.partial(answer, *arguments)
        self._thread = threading.Thread(target=self._work, name="sender", daemon=True)
        self._thread.start()

    @property
    def returned(self) -> bool:
        """Whether the function has returned; raises what it raised."""
        if self._errors:
            raise self._errors[0]
        return not self._thread.is_alive()

    @property
    def recorded(self) -> int:
        """Calls that have ended on the client's side."""
        return len(self._channel.recording.recorder)

    @property
    def issued(self) -> int:
        """Calls that the client has sent."""
        return int(self._channel.recording.recorder.issued)

    def returns(self, timeout_s: float = WAIT_S) -> bool:
        """Wait until the function has returned; whether it did in time."""
        self._thread.join(timeout_s)
        return self.returned

    def returns_early(self) -> bool:
        """Whether it returns while a call is held: it waits for a time, or for nothing."""
        with controlled_time.running_ahead():
            return self.returns(GRACE_S)

    def polls(self) -> bool:
        """Whether the thread keeps running while there is nothing that it could do.

        Never on a system that does not report the CPU time of another thread.
        """
        if not hasattr(time, "pthread_getcpuclockid") or self.returned:
            return False
        clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        before_s = time.clock_gettime(clock)
        time.sleep(GRACE_S)
        return time.clock_gettime(clock) - before_s > POLLING_S

    def _work(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # raised again in the judge's thread
            self._errors.append(error)


@contextmanager
def sending(
    answer: Callable[..., Any],
    *arguments: Any,
    callbacks_late_s: float = 0.0,
    ended_first: bool = False,
) -> Iterator[tuple[Puppet, Sender]]:
    """Start a server that holds every call, and call `answer(stub, *arguments)` in a thread.

    `callbacks_late_s` delays every callback, as a busy machine may do. With `ended_first` no call
    is held, and each has ended when the answer gets its future. Leaving the block ends all calls; a
    sender that runs on ends with the process.
    """
    puppet = Puppet(HELD)
    if not ended_first:
        puppet.hold()
    with (
        served(puppet) as address,
        measured_channel(address, station_times=False) as channel,
    ):
        stub: Any = KeyValueServiceStub(channel)
        if callbacks_late_s or ended_first:
            stub = _with_other_callbacks(stub, callbacks_late_s, ended_first)
        sender = Sender(answer, (stub, *arguments), channel)
        try:
            yield puppet, sender
        finally:
            puppet.end()


def reach_stub(answer: Callable[..., Any], *arguments: Any) -> None:
    """Call the answer with a channel that leads nowhere: a function still to be written shows."""
    with grpc.insecure_channel("127.0.0.1:1") as nowhere:
        sender = Sender(answer, (KeyValueServiceStub(nowhere), *arguments))
        sender.returns(GRACE_S)


def _with_other_callbacks(stub: Any, late_s: float, ended_first: bool) -> WrappedStub:
    """Return a stub whose futures call their callbacks late, or have ended from the start."""

    def around(method: Any, how: str, *arguments: Any, **named: Any) -> Any:
        call = getattr(method, how)(*arguments, **named)
        if how != "future":
            return call
        if ended_first:
            call.exception()
        add = call.add_done_callback

        def later(callback: Callable[[Any], Any]) -> None:
            def called(ended: Any) -> None:
                time.sleep(late_s)
                callback(ended)

            add(called)

        call.add_done_callback = later
        return call

    return WrappedStub(stub, around)


@dataclass(frozen=True)
class ClientTrial:
    """What a client did with a scripted server."""

    returned: Any
    """What the learner's function returned; None where it raised."""
    failure: AnswerFailed | None
    """The error that left the learner's function."""
    run: Run
    """The calls as the channel recorded them."""
    served: tuple[Arrived, ...]
    """The calls as the server counted them."""
    deadlines_s: tuple[float | None, ...]
    """The `timeout` of each call, as the client gave it."""

    @property
    def status(self) -> grpc.StatusCode | None:
        """The status of the gRPC error that left the learner's function; None without one."""
        error = self.failure.__cause__ if self.failure else None
        return error.code() if isinstance(error, grpc.RpcError) else None

    @property
    def overlapping(self) -> int:
        """Calls that were sent before all earlier calls had ended."""
        calls = self.run.calls
        early = calls["sent_s"].to_numpy()[1:] < calls["done_s"].cummax().to_numpy()[:-1]
        return int(early.sum())


def try_client(script: Script, client: Callable[[Any], Any]) -> ClientTrial:
    """Run the client against a server that follows the script, and return what both saw."""
    returned, failure = None, None
    deadlines_s: list[float | None] = []

    def note(
        method: Any, how: str, request: Any, timeout: float | None = None, **named: Any
    ) -> Any:
        deadlines_s.append(timeout)
        return getattr(method, how)(request, timeout=timeout, **named)

    puppet = Puppet(script)
    with served(puppet) as address:
        with measured_channel(address, station_times=False) as channel:
            try:
                returned = client(WrappedStub(KeyValueServiceStub(channel), note))
            except AnswerFailed as error:
                failure = error
            puppet.end()
        arrived = tuple(puppet.arrived)
        return ClientTrial(returned, failure, channel.run(), arrived, tuple(deadlines_s))


# A learner's stream client, judged by what a real server receives.
#
# The server answers nothing before the window is full, then one request at a time, drawn by
# chance. So it sees at each reply whether the window is kept, at any speed of the machine.


SETTLE_S: Final = 0.005
"""How long it waits at each reply for a request that a right client does not send."""
DEADLINE_S: Final = 12.0
"""The whole stream ends after this long."""

_END: Final = None


@dataclass
class StreamTraffic:
    """What the server received on one stream."""

    requests: int = 0
    answered: int = 0
    most: int = 0
    """The most requests without a reply at any moment."""
    fewest: int | None = None
    """The fewest that were open when it answered, where the window allowed more; None: never."""
    same_id: int | None = None
    """An id that a second request had while the first one was open."""
    ended: bool = False
    """Whether the client ended its requests."""
    messages: list[bytes] = field(default_factory=list)
    """The requests, as they came."""


class WindowedStore(KeyValueServiceServicer):
    """Answers reads on one stream, out of order, and keeps account of the window."""

    def __init__(
        self, values: Mapping[bytes, bytes], count: int, window: int, draw: random.Random
    ) -> None:
        self.traffic = StreamTraffic()
        self._values = values
        self._count = count
        self._window = window
        self._draw = draw

    def Pipeline(
        self, request_iterator: Iterable[pb.PipelineRequest], context: grpc.ServicerContext
    ) -> Iterator[pb.PipelineResponse]:
        """Fill the window, answer one of its requests, and so on until the client ends."""
        arrived: queue.SimpleQueue[pb.PipelineRequest | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(request_iterator, arrived), daemon=True).start()
        open_requests: list[pb.PipelineRequest] = []
        answered, patience_s = 0, PATIENCE_S
        while not self.traffic.ended or open_requests:
            room = min(self._window, self._count - answered)
            while len(open_requests) < room and not self.traffic.ended:
                if not self._take(arrived, open_requests, patience_s):
                    break
            while self._take(arrived, open_requests, SETTLE_S):
                pass
            self.traffic.most = max(self.traffic.most, len(open_requests))
            if len(open_requests) < room:
                self.traffic.fewest = min(self.traffic.fewest or room, len(open_requests))
                patience_s = 0.02  # one delay is enough to judge it
            if open_requests:
                request = open_requests.pop(self._draw.randrange(len(open_requests)))
                answered += 1
                self.traffic.answered = answered
                yield self._reply(request)
            elif self._take(arrived, open_requests, PATIENCE_S):
                continue
            elif not self.traffic.ended:
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no request came any more")

    def _take(
        self,
        arrived: "queue.SimpleQueue[pb.PipelineRequest | None]",
        open_requests: list[pb.PipelineRequest],
        patience_s: float,
    ) -> bool:
        """Take one request that has arrived; whether there was one."""
        if self.traffic.ended:
            return False
        try:
            request = arrived.get(timeout=patience_s)
        except queue.Empty:
            return False
        if request is _END:
            self.traffic.ended = True
            return False
        if request.id in {each.id for each in open_requests}:
            self.traffic.same_id = request.id
        self.traffic.requests += 1
        self.traffic.messages.append(request.SerializeToString())
        open_requests.append(request)
        return True

    def _reply(self, request: pb.PipelineRequest) -> pb.PipelineResponse:
        values = [self._values[key] for key in request.keys if key in self._values]
        statuses = bytes(OK if key in self._values else NOT_FOUND for key in request.keys)
        return pb.PipelineResponse(id=request.id, statuses=statuses, values=values)


def _read(
    requests: Iterable[pb.PipelineRequest],
    arrived: "queue.SimpleQueue[pb.PipelineRequest | None]",
) -> None:
    try:
        for request in requests:
            arrived.put(request)
    except grpc.RpcError:
        pass  # the client has gone
    arrived.put(_END)


class WatchedStub:
    """The generated stub; keeps an error that the learner's request iterator raises."""

    def __init__(self, stub: Any) -> None:
        self.streams = 0
        self.unary = 0
        self.error: Exception | None = None
        self._stub = stub

    def Pipeline(self, requests: Any, timeout: float | None = DEADLINE_S, **how: Any) -> Any:
        """Open the stream."""
        self.streams += 1
        return self._stub.Pipeline(self._watched(requests), timeout=timeout, **how)

    def _watched(self, requests: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from requests
        except Exception as error:
            self.error = error

    def __getattr__(self, name: str) -> Any:
        self.unary += 1
        return getattr(self._stub, name)


@contextmanager
def windowed(
    values: Mapping[bytes, bytes], count: int, window: int, seed: int
) -> Iterator[tuple[WatchedStub, StreamTraffic]]:
    """Start a server that expects `count` reads in a window; give a stub and what it sees."""
    store = WindowedStore(values, count, window, random.Random(seed))
    with (
        served(store, ThreadPoolExecutor(4)) as address,
        grpc.insecure_channel(address, options=[OWN_CONNECTION]) as channel,
    ):
        yield WatchedStub(KeyValueServiceStub(channel)), store.traffic
