"""The clients of lesson 05: a window of requests on a stream, and requests with many reads."""

from collections.abc import Sequence
from typing import Any, Final

from kvstore.course.exercises import AnswerFailed, Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import (
    Requests,
    Sender,
    StreamTraffic,
    WatchedStub,
    windowed,
)
from kvstore.course.lessons import words
from kvstore.protocol import RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb

say = words("05")

# 05.stream ----------------------------------------------------------------------------------------

VALUES: Final = {b"key %d" % number: b"value %d" % number for number in range(12)}
"""What the server of the check holds; other keys are not found."""
RETURNS_S: Final = 30.0
"""A client that has not returned after this time never will."""


def _trials() -> list[tuple[list[bytes], int]]:
    """Keys and a window for each trial, from small to large; with and without unknown keys."""
    known = list(VALUES)
    return [
        (known[:1], 1),
        (known[:3], 3),
        ([*known[:8], *known[3:7], known[0], known[0]], 4),
        ([known[0], b"unknown", *known[1:4], b"unknown", *known[2:5]], 3),
        (known[:5], 9),
        (known[:6], 1),
        ([*known, *known, *known], 16),
        (10 * known, 110),  # more than any limit of the answer's own
        ([], 2),
    ]


class _Greedy(Exception):
    """The client took requests that it could not send."""


@judges("05.stream")
def _judge_window(answer: Any) -> Verdict:
    for seed, (keys, limit) in enumerate(_trials()):
        messages = [
            pb.PipelineRequest(id=number, kinds=bytes([RETRIEVE]), keys=[key])
            for number, key in enumerate(keys)
        ]
        with windowed(VALUES, len(keys), limit, seed) as (stub, traffic):
            if problem := _why_not_window(answer, stub, traffic, messages, limit):
                return not_yet(f"{len(keys)} requests, {limit} in flight: {problem}")
    return passed(say("passed_stream"))


def _why_not_window(
    answer: Any, stub: WatchedStub, traffic: StreamTraffic, messages: Sequence[Any], limit: int
) -> str:
    """Return what is wrong with one trial, or ""."""

    def not_too_many() -> None:
        if taken.count > traffic.answered + limit + 1:
            raise _Greedy

    taken = Requests(messages, not_too_many)
    sender = Sender(answer, (stub, taken, limit))
    try:
        if not sender.returns(RETURNS_S):
            return say("never_returns")
    except AnswerFailed as error:
        if isinstance(error.__cause__, _Greedy):
            return _greedy(limit)
        if stub.error is None and (problem := _problem(stub, traffic, messages, limit)):
            return problem
        if stub.error is None:
            raise
    answered = traffic.answered
    if isinstance(stub.error, _Greedy):
        return _greedy(limit)
    if stub.error is not None:
        return say("iterator_stopped", kind=type(stub.error).__name__, error=stub.error)
    if answered < len(messages) and stub.streams == 1 and traffic.most <= limit:
        return say("replies_left", answered=answered, messages=len(messages))
    return _problem(stub, traffic, messages, limit)


def _greedy(limit: int) -> str:
    return say("taken_too_soon", limit=limit)


def _problem(stub: WatchedStub, traffic: StreamTraffic, messages: Sequence[Any], limit: int) -> str:
    """Return what is wrong with the requests that came, or ""."""
    if traffic.same_id is not None:
        return say("same_id_open", same_id=traffic.same_id)
    if not stub.streams and messages:
        return say("never_opened")
    if stub.streams > 1:
        return say("several_streams", streams=stub.streams)
    if traffic.most > limit:
        return say("overfull", most=traffic.most)
    if traffic.fewest is not None and traffic.fewest <= 1 < limit and traffic.most <= 1:
        return say("one_at_a_time")
    if traffic.fewest is not None and traffic.most < min(limit, len(messages)):
        return say("place_stays_empty", most=traffic.most)
    if traffic.fewest is not None:
        return say("in_turns")
    if traffic.messages != [each.SerializeToString() for each in messages]:
        return say("other_requests", requests=traffic.requests)
    return ""


# 05.batches ---------------------------------------------------------------------------------------


@judges("05.batches")
def _judge_batches(answer: Any) -> Verdict:
    for count, k in ((6, 1), (6, 3), (7, 3), (2, 5), (1, 1), (0, 4), (64, 16)):
        keys = [b"key %d" % (number % 40) for number in range(count)]
        messages = answer(list(keys), k)
        if (
            messages is None
            or isinstance(messages, str | bytes)
            or not hasattr(messages, "__iter__")
        ):
            return not_yet(say("nothing_yielded", returned=messages))
        if problem := _why_not_batches(list(messages), keys, k):
            return not_yet(f"{count} keys, k = {k}: {problem}")
    return passed(say("passed_batches"))


def _why_not_batches(messages: Sequence[Any], keys: Sequence[bytes], k: int) -> str:
    """Return what is wrong with the messages, or ""."""
    strange = [each for each in messages if type(each).__name__ != "PipelineRequest"]
    if strange:
        return say("no_messages", strange=strange[0])
    if len({each.id for each in messages}) < len(messages):
        return say("same_id")
    if any(len(each.kinds) != len(each.keys) for each in messages):
        message = next(each for each in messages if len(each.kinds) != len(each.keys))
        return say("kinds_missing", kinds=len(message.kinds), keys=len(message.keys))
    if any(set(each.kinds) - {RETRIEVE} for each in messages):
        return say("another_kind")
    sizes = [len(each.keys) for each in messages]
    read = [key for each in messages for key in each.keys]
    if len(read) < len(keys):
        return say("rest_left_out", read=len(read), keys=len(keys))
    if read != list(keys):
        return say("another_order")
    if 0 in sizes:
        return say("empty_message")
    if any(size != k for size in sizes[:-1]) or max(sizes, default=0) > k:
        return say("wrong_sizes", size=sizes[:6])
    return ""
