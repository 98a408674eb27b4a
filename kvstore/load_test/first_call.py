"""The first calls: whether they end as OK, how long they take, and streams without end."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, Final, NamedTuple

import grpc

from kvstore.client.channel import DROPPED, NOT_REACHED, Target
from kvstore.client.errors import ServerNotReached, hint_of, printable
from kvstore.client.plan import RunOptions
from kvstore.client.workload import MethodCalls, MethodOperations
from kvstore.measure.recorder import Sample

Progress = Callable[[str], object]
"""A function that is called with a line of text as the work goes on."""

TRIES: Final = 5
"""A service that fails some of its calls may fail the first one."""
AGAIN: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
"""Statuses after which another call may end as OK."""
AGAIN_S: Final = 0.05
STREAM_S: Final = 1.0
"""A stream of replies that goes on for longer is cut."""
QUIET_S: Final = 1.5
"""Seconds between two lines of progress."""


def at_times(
    progress: Progress, shown: Callable[[Sample], str], every_s: float = QUIET_S
) -> Callable[[Sample], None]:
    """Return a function of samples that reports one of them every `every_s` seconds."""
    last_s = time.perf_counter()

    def report(sample: Sample) -> None:
        nonlocal last_s
        if time.perf_counter() - last_s >= every_s:
            last_s = time.perf_counter()
            progress(shown(sample))

    return report


class FirstCallFailed(RuntimeError):
    """The first call to the service did not end as OK, so a load test makes no sense."""


class FirstCall(NamedTuple):
    """A call that ended as OK, or a stream that was cut after its first messages."""

    took_s: float
    """Seconds that the call took over a connection that was ready."""
    messages: int
    """Messages of the reply."""
    ends: bool
    """Whether the service ended the call; a stream that was cut may have no end."""


def with_an_end(calls: MethodCalls, first: FirstCall) -> MethodCalls:
    """Return the calls; a stream that did not end by itself is cut after `STREAM_S` seconds."""
    if first.ends or calls.stop_after_s is not None or calls.stop_after_messages is not None:
        return calls
    return replace(calls, stop_after_s=STREAM_S)


def first_call(
    target: Target,
    calls: MethodCalls,
    options: RunOptions,
    progress: Progress = lambda text: None,
) -> FirstCall:
    """Make one call, and a second one to time it. `progress` gets a line for each 1.5 s of waiting.

    A stream of replies is cut after `STREAM_S` seconds or the limits of the calls. Raises
    `FirstCallFailed` with the reason when no call ends as OK.
    """
    operations = MethodOperations(replace(calls, others=()))
    with target.channel() as channel:
        method = getattr(channel, calls.shape)(f"/{calls.method}")

        def one() -> FirstCall:
            operation = operations.draw()
            request: Any = iter(operation.request) if calls.sends_stream else operation.request
            metadata = operation.metadata or None
            return _one(method, request, metadata, calls, options, progress)

        for tries_left in range(TRIES - 1, -1, -1):
            try:
                first = one()
                break
            except grpc.RpcError as error:
                if error.code() not in AGAIN or not tries_left:
                    raise _explained(error, target, calls, options) from None
                time.sleep(AGAIN_S)
        if not first.ends or first.took_s > QUIET_S:  # the connection was a small part of it
            return first
        try:
            return one()
        except grpc.RpcError:  # it fails some of its calls
            return first


def _one(
    method: Any,
    request: Any,
    metadata: Any,
    calls: MethodCalls,
    options: RunOptions,
    progress: Progress,
) -> FirstCall:
    """Make one call. Another thread waits for its end, so that this one can report it."""
    began_s = time.perf_counter()
    named = {"timeout": options.deadline_s, "metadata": metadata, "wait_for_ready": False}
    open_call = (method if calls.answers_stream else method.future)(request, **named)
    with ThreadPoolExecutor(1, "first call") as pool:
        ended = pool.submit(_ended, open_call, calls, began_s)
        try:
            while not wait([ended], QUIET_S).done:
                progress(f"waiting for the first call, {time.perf_counter() - began_s:.1f} s")
        except KeyboardInterrupt:
            open_call.cancel()
            raise
        return ended.result()


def _ended(open_call: Any, calls: MethodCalls, began_s: float) -> FirstCall:
    if not calls.answers_stream:
        open_call.result()
        return FirstCall(time.perf_counter() - began_s, 1, True)
    limit_s = calls.stop_after_s or STREAM_S
    messages, cut = 0, threading.Event()

    def end() -> None:
        if messages:
            cut.set()
            open_call.cancel()

    timer = threading.Timer(limit_s, end)
    timer.start()
    try:
        for _ in open_call:
            messages += 1
            late = time.perf_counter() - began_s >= limit_s
            if late or messages == calls.stop_after_messages:
                cut.set()
                open_call.cancel()
                break
    except grpc.RpcError:
        if not cut.is_set():
            raise
    finally:
        timer.cancel()
    ends = not cut.is_set() or messages == calls.stop_after_messages
    return FirstCall(time.perf_counter() - began_s, messages, ends)


def _explained(
    error: grpc.RpcError, target: Target, calls: MethodCalls, options: RunOptions
) -> Exception:
    code = error.code()
    status = f"{code.name}: {printable(error.details() or 'no details')}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return FirstCallFailed(
            f"the first call of {calls.method} did not end within its deadline of"
            f" {options.deadline_s:g} s: give a longer one with --deadline-s"
        )
    known = hint_of(status)
    if code in NOT_REACHED:
        more = f": {known}" if known else ""
        return ServerNotReached(f"the server at {target.address} does not answer ({status}){more}")
    if known:
        return FirstCallFailed(f"the first call of {calls.method} ended with {status}: {known}")
    token = "give the token that it requires with --token FILE, or with --metadata"
    hint = {
        grpc.StatusCode.UNIMPLEMENTED: "the server does not have this method",
        grpc.StatusCode.UNAUTHENTICATED: token,
        grpc.StatusCode.PERMISSION_DENIED: token,
        DROPPED: "repeat this when the server is idle: it drops calls while too many wait for it, "
        "those whose deadline has passed among them",
    }.get(code, "correct the request; a load of failing calls measures the failure")
    return FirstCallFailed(f"the first call of {calls.method} ended with {status}. Next: {hint}")
