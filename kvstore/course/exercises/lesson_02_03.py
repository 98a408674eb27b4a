"""Lessons 02 and 03: what calls without a limit cost, and how large a limit has to be."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise, Verdict, WrongAnswer
from kvstore.course.exercises.grading import in_order_of, judge_drawn

# ---- lesson 02 ----------------------------------------------------------------------------------
# Latency in an unlimited queue, and the time until it fills memory.


def latency_of_kth(k: int, sent_per_s: float, answered_per_s: float) -> float:
    """Seconds from sending the k-th call to its answer: answered at k/X, sent at (k-1)/lambda."""
    return max(1 / answered_per_s, k / answered_per_s - (k - 1) / sent_per_s)


LATENCY_INPUTS = st.fixed_dictionaries(
    {
        "k": st.integers(1, 1000),
        "sent_per_s": st.just(math.inf) | st.integers(1, 1000).map(float),
        "answered_per_s": st.integers(1, 1000).map(float),
    }
)
LATENCY_MISTAKES = (
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: 1 / answered_per_s,
        "That is the time at the lock alone: the earlier calls go through it first.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k / answered_per_s,
        "You count from the start of the run: latency counts from when the call is sent.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k / answered_per_s - (k - 1) / sent_per_s,
        "When you send more slowly than the server answers, no call waits for another one. Then "
        "a call takes 1/X, and no call takes less.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, k / answered_per_s - k / sent_per_s
        ),
        "The first call is sent at 0 s, so the k-th is sent at (k-1)/λ.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, (k - 1) / answered_per_s - (k - 1) / sent_per_s
        ),
        "The call needs the lock itself, too: k calls of 1/X, not k-1.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: k * answered_per_s,
        "You multiply by X: a faster server makes its callers wait less.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(
            1 / answered_per_s, (k / answered_per_s - (k - 1) / sent_per_s) / 2
        ),
        "That is the mean over all calls: the question is the k-th one.",
    ),
    WrongAnswer(
        lambda k, sent_per_s, answered_per_s: max(0.0, k / answered_per_s - (k - 1) / sent_per_s),
        "No call takes less than its own time at the lock, 1/X.",
    ),
)


def _judge_latency(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        latency_of_kth,
        LATENCY_INPUTS.map(in_order_of(latency_of_kth)),
        mistakes=LATENCY_MISTAKES,
        right="k/X - (k-1)/λ: while λ > X, each call waits a little longer than the one before it, "
        "without end. Below X no call waits for another one.",
    )


LATENCY_OF_KTH = Exercise(
    id="02.latency_of_kth",
    title="How long does the k-th call take?",
    hints=(
        "Write down two times since the start: when is the k-th call sent, and when is it "
        "answered?",
        "A busy server gives its k-th answer at k/X. The k-th call is sent at (k-1)/λ. Latency "
        "is the difference.",
        "When λ < X the server is idle in between, and the difference falls below 1/X. No call "
        "takes less than 1/X: `max(...)`.",
    ),
    reference=latency_of_kth,
    wrong=LATENCY_MISTAKES,
    judge=_judge_latency,
)


def seconds_until_full(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    """When memory reaches its ceiling: the room, divided by what the backlog adds each second."""
    growth_mb_per_s = kb_per_call / 1000 * (sent_per_s - answered_per_s)
    if growth_mb_per_s <= 0:
        return math.inf
    return (ceiling_mb - base_mb) / growth_mb_per_s


def _with_room(drawn: dict[str, Any]) -> dict[str, Any]:
    room = drawn.pop("room_mb")
    return {"ceiling_mb": drawn["base_mb"] + room, **drawn}


FULL_INPUTS = st.fixed_dictionaries(
    {
        "base_mb": st.integers(1, 500).map(float),
        "room_mb": st.integers(1, 2000),
        "kb_per_call": st.integers(1, 200).map(float),
        "sent_per_s": st.integers(0, 50).map(lambda n: 100.0 * n),
        "answered_per_s": st.integers(0, 50).map(lambda n: 100.0 * n),
    }
).map(_with_room)


def _growing(seconds: Callable[..., float]) -> Callable[..., float]:
    """A mistake that is one only while the backlog grows."""

    def answer(
        ceiling_mb: float,
        base_mb: float,
        kb_per_call: float,
        sent_per_s: float,
        answered_per_s: float,
    ) -> float:
        if sent_per_s <= answered_per_s:
            return math.inf
        return seconds(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s)

    return answer


def _no_inf_when_equal(
    ceiling_mb: float, base_mb: float, kb_per_call: float, sent_per_s: float, answered_per_s: float
) -> float:
    if sent_per_s < answered_per_s:
        return math.inf
    return (ceiling_mb - base_mb) / (kb_per_call / 1000 * (sent_per_s - answered_per_s))


FULL_MISTAKES = (
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * sent)),
        "You leave out the answers: a call that was answered gives its memory back.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: c / (kb / 1000 * (sent - x))),
        "You start from nothing: the process uses `base_mb` before the first call.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb * (sent - x))),
        "The room is in MB and a call in kB: 1 MB is 1,000 kB.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1024 * (sent - x))),
        "Here 1 MB is 1,000 kB, not 1,024.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: (c - b) / (kb / 1000 * (sent + x))),
        "You add the answers: each of them makes room, so subtract them.",
    ),
    WrongAnswer(
        _growing(lambda c, b, kb, sent, x: kb / 1000 * (sent - x) / (c - b)),
        "Your fraction is upside down: more room lasts longer, faster growth does not.",
    ),
    WrongAnswer(
        _no_inf_when_equal,
        "When λ = X the backlog does not grow either: `math.inf`.",
    ),
    WrongAnswer(
        lambda ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s: (
            (ceiling_mb - base_mb) / (kb_per_call / 1000 * abs(sent_per_s - answered_per_s))
            if sent_per_s != answered_per_s
            else math.inf
        ),
        "When the server answers faster than you send, memory never fills: `math.inf`.",
    ),
)


def _judge_until_full(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        seconds_until_full,
        FULL_INPUTS.map(in_order_of(seconds_until_full)),
        mistakes=FULL_MISTAKES,
        right="(ceiling - base) / (memory per call · (λ - X)). The only sender that never gets "
        "there has λ ≤ X, and a sender without a limit does not look at X.",
    )


UNTIL_FULL = Exercise(
    id="02.seconds_until_full",
    title="When is memory full?",
    hints=(
        "How many more calls are in flight after each second?",
        "The backlog grows by λ - X calls each second, and memory by that times the memory of a "
        "call. How much room is there for it?",
        "(ceiling - base) / (kB per call / 1000 · (λ - X)); `math.inf` when λ ≤ X.",
    ),
    reference=seconds_until_full,
    wrong=FULL_MISTAKES,
    judge=_judge_until_full,
)


# ---- lesson 03 ----------------------------------------------------------------------------------
# The limit that a throughput needs, and the lock of the hottest key.


def hot_key_bound(
    key_shares: Mapping[str, float], write_share: float, write_delay_s: float
) -> float:
    """Calls per second that the hottest key allows: one write of it at a time."""
    hottest = max(key_shares.values()) * write_share
    return 1 / (hottest * write_delay_s) if hottest else math.inf


def _shares(weights: Sequence[int]) -> dict[str, float]:
    return {f"key {n}": weight / sum(weights) for n, weight in enumerate(weights)}


HOT_KEY_INPUTS = st.fixed_dictionaries(
    {
        "key_shares": st.lists(st.sampled_from([1, 2, 5]), min_size=1, max_size=3).map(_shares),
        "write_share": st.integers(0, 20).map(lambda n: n / 20),
        "write_delay_s": st.integers(1, 200).map(lambda n: n / 1000),
    }
)
HOT_KEY_MISTAKES = (
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: (
            len(key_shares) / (write_share * write_delay_s) if write_share else math.inf
        ),
        "You take all keys for equally hot: look for the busiest one.",
    ),
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: (
            1 / (max(key_shares.values()) * write_delay_s)
        ),
        "A read takes no lock: only the writes of the hottest key queue.",
    ),
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: 1 / write_delay_s,
        "That is what one lock serves, but not every call needs that lock.",
    ),
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: (
            1 / (min(key_shares.values()) * write_share * write_delay_s)
            if write_share
            else math.inf
        ),
        "That is the coldest key: its lock is the last one to be busy.",
    ),
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: (
            1 / (max(key_shares.values()) * write_share * write_delay_s)
        ),
        "Without any write no lock limits the rate: return `math.inf`.",
    ),
    WrongAnswer(
        lambda key_shares, write_share, write_delay_s: (
            max(key_shares.values()) * write_share / write_delay_s
        ),
        "You multiply by the share where you have to divide: a hotter key makes the rate lower.",
    ),
)


def _judge_hot_key(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        hot_key_bound,
        HOT_KEY_INPUTS.map(in_order_of(hot_key_bound)),
        mistakes=HOT_KEY_MISTAKES,
        right="The demand on the hottest lock is p_max·S, and X ≤ 1/D_max is the rest.",
    )


HOT_KEY = Exercise(
    id="03.hot_key",
    title="The hottest key",
    hints=(
        "Each key's lock is a station of its own. Which one is busiest?",
        "The demand D of a station is its service time averaged over all calls, including those "
        "that never come there.",
        "The share `max(key_shares.values()) * write_share` of all calls comes to the busiest "
        "lock, and each holds it for `write_delay_s`. X ≤ 1/D_max.",
    ),
    reference=hot_key_bound,
    wrong=HOT_KEY_MISTAKES,
    judge=_judge_hot_key,
    timeout_s=60.0,  # drawing the shares takes seconds where many programs run
)


def in_flight_for(
    target_per_s: float, disk_s: float, round_trip_s: float, most_per_s: float
) -> float:
    """Calls in flight that reach the target: Little's law, unless the bottleneck is slower."""
    if target_per_s > most_per_s:
        return math.inf
    return _ceil(target_per_s * (disk_s + round_trip_s))


def _ceil(calls: float) -> int:
    return math.ceil(round(calls, 9))


IN_FLIGHT_INPUTS = st.fixed_dictionaries(
    {
        "target_per_s": st.integers(1, 5000).map(float),
        "disk_s": st.integers(1, 200).map(lambda n: n / 1000),
        "round_trip_s": st.integers(0, 20).map(lambda n: n / 1000),
        "most_per_s": st.integers(1, 5000).map(float) | st.just(math.inf),
    }
).filter(
    # Where N is a whole number, the rounding of floats must not decide: 10 * 0.3 is above 3.
    lambda drawn: (
        len(
            {
                math.ceil(drawn["target_per_s"] * (drawn["disk_s"] + drawn["round_trip_s"])),
                math.ceil(
                    drawn["target_per_s"] * drawn["disk_s"]
                    + drawn["target_per_s"] * drawn["round_trip_s"]
                ),
                _ceil(drawn["target_per_s"] * (drawn["disk_s"] + drawn["round_trip_s"])),
            }
        )
        == 1
    )
)


def _unless_too_many(calls: Callable[[float, float, float], float]) -> Callable[..., float]:
    def answer(target_per_s: float, disk_s: float, round_trip_s: float, most_per_s: float) -> float:
        if target_per_s > most_per_s:
            return math.inf
        return calls(target_per_s, disk_s, round_trip_s)

    return answer


IN_FLIGHT_MISTAKES = (
    WrongAnswer(
        _unless_too_many(lambda x, disk, trip: _ceil(x * disk)),
        "A call is in flight on the network too: add the round trip.",
    ),
    WrongAnswer(
        _unless_too_many(lambda x, disk, trip: round(x * (disk + trip))),
        "There are no parts of a call, and one call too few misses the target: round up.",
    ),
    WrongAnswer(
        _unless_too_many(lambda x, disk, trip: int(x * (disk + trip)) + 1),
        "When N is a whole number, it is enough: that is one call too many.",
    ),
    WrongAnswer(
        lambda target_per_s, disk_s, round_trip_s, most_per_s: _ceil(
            target_per_s * (disk_s + round_trip_s)
        ),
        "The bottleneck is slower than the target: more calls only wait. Return `math.inf`.",
    ),
    WrongAnswer(
        _unless_too_many(lambda x, disk, trip: x / (disk + trip)),
        "You divide by the time of a call. If each call takes longer, do you need fewer of them?",
    ),
    WrongAnswer(
        lambda target_per_s, disk_s, round_trip_s, most_per_s: (
            math.inf
            if target_per_s >= most_per_s
            else _ceil(target_per_s * (disk_s + round_trip_s))
        ),
        "A target equal to 1/D_max can be reached: the bound is ≤.",
    ),
    WrongAnswer(
        lambda target_per_s, disk_s, round_trip_s, most_per_s: _ceil(
            min(target_per_s, most_per_s) * (disk_s + round_trip_s)
        ),
        "That many calls reach 1/D_max, and the target is above it. No number does: `math.inf`.",
    ),
)


def _judge_in_flight_for(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        in_flight_for,
        IN_FLIGHT_INPUTS.map(in_order_of(in_flight_for)),
        mistakes=IN_FLIGHT_MISTAKES,
        right="N = X·(D + round trip), rounded up, as long as the bottleneck can serve the target. "
        "A semaphore can keep a server busy. It cannot make it faster.",
    )


IN_FLIGHT_FOR = Exercise(
    id="03.in_flight_for",
    title="How large should the semaphore be?",
    hints=(
        "Little's law, L = X·R: which two of the three do you know?",
        "R is the whole time of a call in flight: on the disk, and on the network there and back.",
        "Round up with `math.ceil`. Before that: is the target above `most_per_s`?",
    ),
    reference=in_flight_for,
    wrong=IN_FLIGHT_MISTAKES,
    judge=_judge_in_flight_for,
)
