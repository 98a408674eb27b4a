"""Lesson 12: how much a change can bring, and a client with two servers, one of which fails."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc
from hypothesis import strategies as st

from kvstore.client.messages import Operation, update
from kvstore.course.exercises import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.grading import in_order_of, judge_drawn
from kvstore.course.lessons.lesson_12.capstone import patient, plain
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


def most_gain(most_per_s: Mapping[str, float], widened: str) -> float:
    """How many times the throughput at most, once this station is as wide as you like."""
    before_per_s = min(most_per_s.values())
    after_per_s = min(per_s for name, per_s in most_per_s.items() if name != widened)
    return after_per_s / before_per_s


def _drawn(rates: list[int], place: int) -> dict[str, Any]:
    names = ("calls in flight", "pool", "lock", "disk", "processor")
    most_per_s = {name: float(10 * rate) for name, rate in zip(names, rates, strict=False)}
    return {"most_per_s": most_per_s, "widened": list(most_per_s)[place % len(most_per_s)]}


INPUTS = st.builds(_drawn, st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(0, 4))
"""Two to five stations, and any of them is widened: also one that does not bind."""

MISTAKES = (
    WrongAnswer(
        lambda most_per_s, widened: max(most_per_s.values()) / min(most_per_s.values()),
        "The widest station never limits anything: which one binds next?",
    ),
    WrongAnswer(
        lambda most_per_s, widened: min(v for k, v in most_per_s.items() if k != widened),
        "That is the throughput afterwards. How many times the one before is it?",
    ),
    WrongAnswer(
        lambda most_per_s, widened: (
            min(most_per_s.values()) / min(v for k, v in most_per_s.items() if k != widened)
        ),
        "Upside down: divide the throughput afterwards by the one before.",
    ),
    WrongAnswer(
        lambda most_per_s, widened: sorted(most_per_s.values())[1] / sorted(most_per_s.values())[0],
        "You widen the bottleneck. But the station that is widened may be another one.",
    ),
)


def _judge(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        most_gain,
        INPUTS.map(in_order_of(most_gain)),
        mistakes=MISTAKES,
        right="The bound of the next station over the bound of the bottleneck: more than this no "
        "change of one station can bring.",
    )


MOST_GAIN = Exercise(
    id="12.most_gain",
    title="What one change can bring",
    hints=(
        "The throughput now is the smallest of all bounds.",
        "After the change it is the smallest bound of the other stations.",
        "Divide the second by the first. A station that does not bind gives 1 without any `if`.",
    ),
    reference=most_gain,
    wrong=MISTAKES,
    judge=_judge,
)


# ---- lesson 12 client ---------------------------------------------------------------------------
# A client with two servers, of which one stalls or goes away: judged by real calls.


COUNT, IN_FLIGHT, TIMEOUT_S = 40, 4, 0.3
"""Operations of a check, the most in flight, and the time after which a call is sent again.

A client that sends all at once has half of them at the server that stalls: far more than the limit
of `_problem`, however busy the machine is.
"""
PATIENCE_S: Final = 5.0
"""How long the stall lasts."""
BREAKS_AFTER = 4
"""Calls that arrive before a server breaks."""
SERVICE_S = 0.002


class _Trial:
    """Two servers that count attempts and answers; the first one breaks."""

    def __init__(self, fault: str) -> None:
        self.answered: Counter[bytes] = Counter()
        self.attempts = [Counter[bytes](), Counter[bytes]()]
        self.most_open = 0
        self.fault = fault
        self.broken = threading.Event()
        self.released = threading.Event()
        self._open = 0
        self._lock = threading.Lock()

    def arrive(self, number: int, key: bytes, context: Any) -> None:
        """Count an attempt until its call has ended, also if its client has given it up."""
        with self._lock:
            self._open += 1
            self.most_open = max(self.most_open, self._open)
            self.attempts[number][key] += 1
            if sum(counter.total() for counter in self.attempts) == BREAKS_AFTER:
                self.broken.set()
        if not context.add_callback(self._leave):
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._open -= 1

    def work(self, number: int, key: bytes, context: Any) -> None:
        """Answer one call after its service time, and not before the end of a stall."""
        self.arrive(number, key, context)
        if number == 0 and self.fault == "stall" and self.broken.is_set():
            self.released.wait()
        time.sleep(SERVICE_S)
        if context.is_active():
            with self._lock:
                self.answered[key] += 1


class _Service(kvstore_pb2_grpc.KeyValueServiceServicer):
    """One of the two servers."""

    def __init__(self, trial: _Trial, number: int) -> None:
        self._trial, self._number = trial, number

    def Update(self, request: pb.UpdateRequest, context: Any) -> pb.UpdateResponse:
        """Answer one call."""
        self._trial.work(self._number, request.key, context)
        return pb.UpdateResponse()


@contextmanager
def _two_servers(trial: _Trial) -> Iterator[list[str]]:
    with ExitStack() as stack:
        addresses, servers = [], []
        for number in range(2):
            pool = stack.enter_context(ThreadPoolExecutor(2 * COUNT))
            server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
            kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(_Service(trial, number), server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            servers.append(server)
        breaking = threading.Thread(target=_when_broken, args=(trial, servers[0]))
        breaking.start()
        try:
            yield addresses
        finally:
            trial.broken.set()
            trial.released.set()
            breaking.join()
            for server in servers:
                server.stop(0).wait()


def _when_broken(trial: _Trial, server: grpc.Server) -> None:
    trial.broken.wait()
    if trial.fault == "goes":
        server.stop(0)
    else:
        trial.released.wait(PATIENCE_S)
        trial.released.set()


def _judge_client(client: Any) -> Verdict:
    for fault in ("stall", "goes"):
        trial = _Trial(fault)
        operations = [update(b"item-%d" % n, b"value") for n in range(COUNT)]
        with _two_servers(trial) as addresses:
            began_s = time.perf_counter()
            client(addresses, iter(operations), IN_FLIGHT, TIMEOUT_S)
            lasted_s = time.perf_counter() - began_s
            if problem := _problem(trial, operations, lasted_s):
                return not_yet(problem)
    return passed(
        "Every operation was answered, although one server stalled, and then one went away. What "
        "you have paid is a second attempt for some of them."
    )


def _problem(trial: _Trial, operations: Sequence[Operation], lasted_s: float) -> str:
    first, second = trial.attempts
    lost = [each.key for each in operations if not trial.answered[each.key]]
    again = [key for key, count in first.items() if count > 1 and not second[key]]
    if trial.most_open > 2 * IN_FLIGHT:
        return (
            f"{trial.most_open} calls were open at once, and in_flight was {IN_FLIGHT}. Acquire a "
            "place before the first attempt, and keep it until the operation is answered."
        )
    if trial.fault == "stall" and again:
        return (
            f"{len(again)} operations were sent again to the server that stalled, and never to the "
            "other one. Use another stub for the next attempt."
        )
    if trial.fault == "stall" and lost:
        return (
            f"One server stalled, and {len(lost)} operations ended with DEADLINE_EXCEEDED. Send "
            "such an operation again, in the callback of the call that failed."
        )
    if trial.fault == "stall" and lasted_s >= PATIENCE_S:
        return (
            "One server stalled, and your calls waited until it went on. Give each call a deadline:"
            " `future(request, timeout=timeout_s)`."
        )
    if lost:
        return (
            f"One server went away, and {len(lost)} operations were lost. Their calls ended with "
            "UNAVAILABLE: send them again, too."
        )
    return ""


def _with_timeout(send_again: Callable[[grpc.StatusCode], bool], step: int) -> Any:
    """Return a client whose calls have a deadline; it retries at the stub `step` places on."""

    def client(addresses: Sequence[str], operations: Any, in_flight: int, timeout_s: float) -> None:
        with ExitStack() as stack:
            stubs = [
                kvstore_pb2_grpc.KeyValueServiceStub(
                    stack.enter_context(grpc.insecure_channel(address))
                )
                for address in addresses
            ]
            free = threading.Semaphore(in_flight)

            def send(operation: Operation, number: int, attempt: int) -> None:
                stub = stubs[number % len(stubs)]
                call = operation.rpc(stub).future(operation.request, timeout=timeout_s)
                call.add_done_callback(lambda call: ended(call, operation, number, attempt))

            def ended(call: Any, operation: Operation, number: int, attempt: int) -> None:
                if attempt < 4 and send_again(call.code()):
                    send(operation, number + step, attempt + 1)
                else:
                    free.release()

            for operation, number in zip(operations, itertools.count(), strict=False):
                free.acquire()
                send(operation, number, 0)
            for _ in range(in_flight):
                free.acquire()

    return client


def _late(code: grpc.StatusCode) -> bool:
    return code is grpc.StatusCode.DEADLINE_EXCEEDED


CLIENT = Exercise(
    id="12.client",
    title="A client that loses nothing",
    hints=(
        "Begin with `bounded` of lesson 03: acquire, send with `future`, release in the callback.",
        "Make one stub for each address, and give each call `timeout=timeout_s`.",
        "In the callback, look at `call.code()`. If it is not OK, do not release the place: send "
        "the same operation again with the stub of the other address.",
        "Write a function `send(operation, attempt)`; its callback calls `send` again. Give up "
        "after a few attempts, and release the place then.",
    ),
    reference=patient,
    wrong=(
        WrongAnswer(
            lambda addresses, operations, in_flight, timeout_s: plain(
                addresses, operations, in_flight
            ),
            "waited until it went on",
        ),
        WrongAnswer(_with_timeout(lambda code: False, 1), "ended with DEADLINE_EXCEEDED"),
        WrongAnswer(
            _with_timeout(lambda code: code is not grpc.StatusCode.OK, 2), "and never to the other"
        ),
        WrongAnswer(_with_timeout(_late, 1), "One server went away"),
        WrongAnswer(
            lambda addresses, operations, in_flight, timeout_s: patient(
                addresses, operations, COUNT, timeout_s
            ),
            "open at once",
        ),
    ),
    judge=_judge_client,
    may_return_none=True,
)
