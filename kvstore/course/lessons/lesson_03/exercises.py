"""How large a limit has to be, and what a hot key costs."""

import math
from collections.abc import Callable, Mapping, Sequence

from hypothesis import strategies as st

from kvstore.course.exercises import Exercise
from kvstore.course.exercises.grading import Drawn


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
    judge=Drawn(
        hot_key_bound,
        HOT_KEY_INPUTS,
        mistakes=(
            (
                "You take all keys for equally hot: look for the busiest one.",
                lambda key_shares, write_share, write_delay_s: (
                    len(key_shares) / (write_share * write_delay_s) if write_share else math.inf
                ),
            ),
            (
                "A read takes no lock: only the writes of the hottest key queue.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (max(key_shares.values()) * write_delay_s)
                ),
            ),
            (
                "That is what one lock serves, but not every call needs that lock.",
                lambda key_shares, write_share, write_delay_s: 1 / write_delay_s,
            ),
            (
                "That is the coldest key: its lock is the last one to be busy.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (min(key_shares.values()) * write_share * write_delay_s)
                    if write_share
                    else math.inf
                ),
            ),
            (
                "Without any write no lock limits the rate: return `math.inf`.",
                lambda key_shares, write_share, write_delay_s: (
                    1 / (max(key_shares.values()) * write_share * write_delay_s)
                ),
            ),
            (
                "You multiply by the share where you have to divide: a hotter key makes the rate "
                "lower.",
                lambda key_shares, write_share, write_delay_s: (
                    max(key_shares.values()) * write_share / write_delay_s
                ),
            ),
        ),
        right="The demand on the hottest lock is p_max·S, and X ≤ 1/D_max is the rest.",
    ),
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


IN_FLIGHT_FOR = Exercise(
    id="03.in_flight_for",
    title="How large should the semaphore be?",
    hints=(
        "Little's law, L = X·R: which two of the three do you know?",
        "R is the whole time of a call in flight: on the disk, and on the network there and back.",
        "Round up with `math.ceil`. Before that: is the target above `most_per_s`?",
    ),
    reference=in_flight_for,
    judge=Drawn(
        in_flight_for,
        IN_FLIGHT_INPUTS,
        mistakes=(
            (
                "A call is in flight on the network too: add the round trip.",
                _unless_too_many(lambda x, disk, trip: _ceil(x * disk)),
            ),
            (
                "There are no parts of a call, and one call too few misses the target: round up.",
                _unless_too_many(lambda x, disk, trip: round(x * (disk + trip))),
            ),
            (
                "When N is a whole number, it is enough: that is one call too many.",
                _unless_too_many(lambda x, disk, trip: int(x * (disk + trip)) + 1),
            ),
            (
                "The bottleneck is slower than the target: more calls only wait. Return "
                "`math.inf`.",
                lambda target_per_s, disk_s, round_trip_s, most_per_s: _ceil(
                    target_per_s * (disk_s + round_trip_s)
                ),
            ),
            (
                "You divide by the time of a call. If each call takes longer, do you need fewer "
                "of them?",
                _unless_too_many(lambda x, disk, trip: x / (disk + trip)),
            ),
            (
                "A target equal to 1/D_max can be reached: the bound is ≤.",
                lambda target_per_s, disk_s, round_trip_s, most_per_s: (
                    math.inf
                    if target_per_s >= most_per_s
                    else _ceil(target_per_s * (disk_s + round_trip_s))
                ),
            ),
            (
                "That many calls reach 1/D_max, and the target is above it. No number does: "
                "`math.inf`.",
                lambda target_per_s, disk_s, round_trip_s, most_per_s: _ceil(
                    min(target_per_s, most_per_s) * (disk_s + round_trip_s)
                ),
            ),
        ),
        right="N = X·(D + round trip), rounded up, as long as the bottleneck can serve the target. "
        "A semaphore can keep a server busy. It cannot make it faster.",
    ),
)
