"""A network that breaks and a server that answers wrongly: each run says so, and loses no call.

A server that is killed, stopped or full is in `test_contract_faults.py`, and in
`test_contract_durable.py`.
"""

import gc
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psutil
import pytest
from relay import DOWN, UP, Relay, relaying
from stacks import impatient, listening, midway

from kvstore.client import load, monitor, workload
from kvstore.client.errors import RunFailed, ServerNotReached
from kvstore.client.strategies import blocking, bounded, chained, pipelined, tasks, threads
from kvstore.measure import audit
from kvstore.measure.recorder import Recorder
from kvstore.protocol import MESSAGE_LIMIT_BYTES
from kvstore.server import serving

pytestmark = pytest.mark.slow

SMALL = workload.crud(value_bytes_mean=100)
LEAVE_S = 20.0
"""Seconds in which threads, sockets and processes have to end."""
GRPCS_OWN = "(_poll_wrapper)"
"""How the name of grpc.aio's thread ends, which the next channel uses again."""


def held() -> set[str]:
    """The threads, sockets and child processes of this process."""
    process = psutil.Process()
    running = {f"thread {each.name} {each.ident}" for each in threading.enumerate()}
    sockets = {f"socket {each.laddr} {each.raddr}" for each in process.net_connections("tcp")}
    children = {f"process {each.pid}" for each in process.children(recursive=True)}
    return {each for each in running if GRPCS_OWN not in each} | sockets | children


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the block leaves no thread, no socket and no process."""
    before = held()
    yield
    end_s = time.perf_counter() + LEAVE_S
    while (left := held() - before) and time.perf_counter() < end_s:
        gc.collect()  # grpc.aio ends its thread when its last channel is collected
        time.sleep(0.05)
    assert not left


@pytest.fixture(scope="module")
def server():
    with serving(read_delay_s=0.001, write_delay_s=0.002, locking="per_key") as running:
        load.run(bounded, running, SMALL, calls=5)  # gRPC starts threads of its own
        load.run(tasks, running, SMALL, calls=5)
        yield running


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A server that does not answer a request for its status within a second never will."""
    monkeypatch.setattr(monitor, "ANSWER_S", 1.0)


def run_of(strategy: Any, address: str, **options: Any) -> tuple[Any, str]:
    """Make a run, whole or failed; return it and what it says of itself."""
    options = {"in_flight": 4, "deadline_s": 1.0, "sample_interval_s": 0.02, **options}
    try:
        run, text = load.run(strategy, address, SMALL, **options), ""
    except RunFailed as failed:
        run, text = failed.run, str(failed)
    assert audit(run).holds, repr(audit(run))
    return run, f"{text} {run!r}"


SILENT = "stopped answering after"
BROKEN = "no server answers|the stream broke|stopped answering"


def late(relay: Relay) -> None:
    relay.latency_s = 0.05


def reset_and_leave(relay: Relay) -> None:
    relay.leave()
    relay.reset()


@pytest.mark.parametrize(
    ("strategy", "harm", "says"),
    [
        (chained, lambda relay: relay.black_hole(UP, DOWN), SILENT),
        (pipelined, lambda relay: relay.black_hole(UP), SILENT),
        (tasks, lambda relay: relay.black_hole(DOWN), SILENT),
        (bounded, Relay.reset, ""),  # connects again
        (pipelined, Relay.reset, BROKEN),
        (threads, Relay.cut, ""),
        (pipelined, Relay.cut, BROKEN),
        (blocking, late, ""),
        (tasks, reset_and_leave, "no server answers at .* any more"),
        (pipelined, reset_and_leave, BROKEN),
    ],
)
def test_a_run_over_a_broken_network_says_what_happened(strategy, harm, says, server):
    with nothing_left(), relaying(server.address) as relay:
        run, text = run_of(strategy, relay.address, duration_s=2.0, on_sample=midway(harm, relay))

    assert re.search(says, text), text
    assert says or run.outcome == "complete"
    assert run.outcomes()["OK"] > 0
    assert server.alive()


def hostile(client: Any, answer: bytes | None) -> bool:
    """Answer a new connection with these bytes, or close it; never connect it with a server."""
    if answer is None:
        client.close()
    else:
        client.sendall(answer)
    return False


@pytest.mark.parametrize(
    ("strategy", "answer"),
    [
        (tasks, None),
        (bounded, b""),
        (pipelined, bytes(range(256))),
        (blocking, b"HTTP/1.1 400\r\n"),
    ],
)
def test_what_is_no_server_is_not_reached(strategy, answer, monkeypatch):
    impatient(monkeypatch)
    monkeypatch.setattr("kvstore.client.channel.HANDSHAKE_S", 1.0)
    with nothing_left(), relaying("127.0.0.1:1") as relay:
        relay.on_accept = lambda client: hostile(client, answer)
        with pytest.raises(ServerNotReached, match="no server answers at"):
            load.run(strategy, relay.address, SMALL, calls=5, in_flight=1)


class Answers(grpc.GenericRpcHandler):
    """Answers every method of the contract with these messages, whatever was sent."""

    def __init__(self, *replies: bytes, code: grpc.StatusCode | None = None) -> None:
        self._replies, self._code = replies, code

    def service(self, details: Any) -> Any:
        if not details.method.startswith("/kvstore.v1.KeyValueService/"):
            return None
        return grpc.stream_stream_rpc_method_handler(self._answer)

    def _answer(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        next(requests)
        if self._code is not None:
            context.abort(self._code, "the test says so")
        yield from self._replies


OR_CORE = "|Internal error from Core"
"""What grpc.aio says, in place of the server's status, where a stream ends during a write."""


@pytest.mark.parametrize(
    ("strategies", "answers", "statuses", "says"),
    [
        ((tasks,), Answers(code=grpc.StatusCode.ABORTED), {"ABORTED"}, "ABORTED: the test"),
        ((bounded,), Answers(code=grpc.StatusCode.DATA_LOSS), {"DATA_LOSS"}, "DATA_LOSS: the"),
        (
            (blocking, bounded, tasks),
            Answers(),
            {"INTERNAL", "UNIMPLEMENTED", "UNKNOWN"},
            "the server closed it",
        ),
        (
            (blocking, bounded, tasks),
            Answers(b"\xff" * 7),
            {"INTERNAL"},
            "INTERNAL|a reply made no sense",
        ),
        (
            (threads,),
            Answers(b"", b""),
            {"INTERNAL", "UNIMPLEMENTED", "UNKNOWN", "DEADLINE_EXCEEDED"},
            "answers no open request|statuses",
        ),
        (
            (tasks,),
            Answers(bytes(MESSAGE_LIMIT_BYTES + 1)),
            {"RESOURCE_EXHAUSTED"},
            "RESOURCE_EXHAUSTED",
        ),
    ],
    ids=["aborted", "lost", "no reply", "no message", "two replies", "too large"],
)
def test_a_wrong_answer_fails_the_call_and_breaks_the_stream(strategies, answers, statuses, says):
    with listening(lambda server: server.add_generic_rpc_handlers([answers])) as address:
        for strategy in strategies:
            run, _ = run_of(strategy, address, calls=8, deadline_s=3.0)
            assert statuses >= set(run.outcomes()), strategy
        run, text = run_of(pipelined, address, calls=8, deadline_s=3.0)

    assert {"NO_ANSWER"} == set(run.outcomes())
    assert re.search(says + OR_CORE, text), text


def test_a_call_that_is_recorded_twice_is_found(monkeypatch, server):
    """Little's law holds all the same: only the count of what was sent shows it."""
    record = Recorder.record

    def stutters(self, *fields) -> None:
        record(self, *fields)
        if len(self) == 4:
            record(self, *fields)

    monkeypatch.setattr(Recorder, "record", stutters)
    monkeypatch.setattr(monitor, "SETTLE_S", 0.5)
    run = load.run(bounded, server, SMALL, in_flight=4, calls=20)

    assert not audit(run).holds
