"""The clients of lesson 05: a window of requests on a stream, and requests with many reads."""

from collections.abc import Sequence
from typing import Any, Final

from kvstore.course.exercises import AnswerFailed, Verdict, judges, not_yet, passed
from kvstore.course.exercises.client_trials import (
    Requests,
    Seen,
    Sender,
    WatchedStub,
    windowed,
)
from kvstore.protocol import RETRIEVE
from kvstore.v1 import kvstore_pb2 as pb

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
        with windowed(VALUES, len(keys), limit, seed) as (stub, seen):
            if problem := _why_not_window(answer, stub, seen, messages, limit):
                return not_yet(f"{len(keys)} requests, {limit} in flight: {problem}")
    return passed(
        "The window was full at every reply and never overfull, although the replies came in "
        "another order than the requests. It returned when each request had its reply."
    )


def _why_not_window(
    answer: Any, stub: WatchedStub, seen: Seen, messages: Sequence[Any], limit: int
) -> str:
    """Return what is wrong with one trial, or ""."""

    def not_too_many() -> None:
        if taken.count > seen.answered + limit + 1:
            raise _Greedy

    taken = Requests(messages, not_too_many)
    sender = Sender(answer, (stub, taken, limit))
    try:
        if not sender.returns(RETURNS_S):
            return "it does not return: what ends its wait?"
    except AnswerFailed as error:
        if isinstance(error.__cause__, _Greedy):
            return _greedy(limit)
        if stub.error is None and (problem := _problem(stub, seen, messages, limit)):
            return problem
        if stub.error is None:
            raise
    answered = seen.answered
    if isinstance(stub.error, _Greedy):
        return _greedy(limit)
    if stub.error is not None:
        return f"your request iterator stopped with {type(stub.error).__name__}: {stub.error}"
    if answered < len(messages) and stub.streams == 1 and seen.most <= limit:
        return (
            f"it returned when {answered} of {len(messages)} requests had a reply: loop over all "
            "replies of the stream."
        )
    return _problem(stub, seen, messages, limit)


def _greedy(limit: int) -> str:
    return (
        f"it took more than {limit} requests that had no reply yet: take one from `requests` only "
        "when there is a permit for it."
    )


def _problem(stub: WatchedStub, seen: Seen, messages: Sequence[Any], limit: int) -> str:
    """Return what is wrong with the requests that came, or ""."""
    if seen.same_id is not None:
        return (
            f"two open requests had the id {seen.same_id}: send each request once, as it comes "
            "from `requests`."
        )
    if not stub.streams and messages:
        return "the stream was never opened: call `stub.Pipeline(...)` with an iterator."
    if stub.streams > 1:
        return f"{stub.streams} streams were opened: send all requests on one."
    if seen.most > limit:
        return (
            f"{seen.most} requests were open at once. Take a permit *before* the request is sent, "
            "and give it back when a reply has come."
        )
    if seen.fewest is not None and seen.fewest <= 1 < limit and seen.most <= 1:
        return (
            "never more than one request was open: that is a blocking client. Send until the "
            "window is full."
        )
    if seen.fewest is not None and seen.most < min(limit, len(messages)):
        return f"never more than {seen.most} requests were open: a place stays empty."
    if seen.fewest is not None:
        return (
            "after a reply, no request followed until more replies came: you send in turns. Each "
            "reply makes room for one request, at once; also a reply without a value."
        )
    if seen.messages != [each.SerializeToString() for each in messages]:
        return (
            f"the server received {seen.requests} requests, and they are not those of `requests`, "
            "in their order: yield each one once, unchanged."
        )
    return ""


# 05.batches ---------------------------------------------------------------------------------------


@judges("05.batches")
def _judge_batches(answer: Any) -> Verdict:
    for count, k in ((6, 1), (6, 3), (7, 3), (2, 5), (1, 1), (0, 4), (64, 16)):
        keys = [b"key %d" % (number % 40) for number in range(count)]
        made = answer(list(keys), k)
        if made is None or isinstance(made, str | bytes) or not hasattr(made, "__iter__"):
            return not_yet(f"yield messages, or return a list of them; got {made!r:.60}.")
        if problem := _why_not_batches(list(made), keys, k):
            return not_yet(f"{count} keys, k = {k}: {problem}")
    return passed(
        "Each key is read once, in its order: k in each message, and the rest in the last one."
    )


def _why_not_batches(made: Sequence[Any], keys: Sequence[bytes], k: int) -> str:
    """Return what is wrong with the messages, or ""."""
    strange = [each for each in made if type(each).__name__ != "PipelineRequest"]
    if strange:
        return f"each message is a `pb.PipelineRequest`, got {strange[0]!r:.60}."
    if len({each.id for each in made}) < len(made):
        return "two messages have the same id: their replies cannot be distinguished."
    if any(len(each.kinds) != len(each.keys) for each in made):
        found = next(each for each in made if len(each.kinds) != len(each.keys))
        return (
            f"a message has {len(found.kinds)} kinds for {len(found.keys)} keys: one kind for each "
            "key, `bytes([...]) * how_many`."
        )
    if any(set(each.kinds) - {RETRIEVE} for each in made):
        return "a kind is not that of a read: use `pb.OPERATION_KIND_RETRIEVE`."
    sizes = [len(each.keys) for each in made]
    read = [key for each in made for key in each.keys]
    if len(read) < len(keys):
        return f"{len(read)} of {len(keys)} keys are read: the last message may have fewer than k."
    if read != list(keys):
        return "the keys are not read once each, in their order."
    if 0 in sizes:
        return "a message reads nothing: yield none without a key."
    if any(size != k for size in sizes[:-1]) or max(sizes, default=0) > k:
        return f"the messages have {sizes[:6]} keys: each has k, and the last one has the rest."
    return ""
