"""Lesson 16: the knee of an unknown service, and the p99 that its users will see."""

import statistics
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from kvstore.course import my_code
from kvstore.course.exercises import Verdict, expect, judges, near, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.lessons import words

say = words("16")

# 16.knee --------------------------------------------------------------------------------------


knee = my_code.course_version("laws.knee")


def _service(drawn: tuple[int, int, int, list[int]]) -> list[tuple[int, float, float]]:
    """Return levels of a pool, beside a delay: N = 1, some others, and one far above the knee."""
    work_ms, delay_ms, workers, others = drawn
    alone_s, ceiling = (work_ms + delay_ms) / 1000, 1000 * workers / work_ms
    last = 4 * round(alone_s * ceiling + 1)
    rows = []
    for n in sorted({last, 1, *others}, key=lambda n: (n * 7919) % 101):  # in any order
        per_s = min(n / alone_s, ceiling)
        rows.append((n, per_s, n / per_s))
    return rows


LEVELS = st.tuples(
    st.integers(1, 200),
    st.integers(0, 50),
    st.integers(1, 40),
    st.lists(st.integers(2, 300), max_size=6),
).map(_service)
judges("16.knee")(Drawn(knee, LEVELS.map(lambda levels: (levels,))))

# 16.p99 ---------------------------------------------------------------------------------------


p99_at = my_code.course_version("laws.p99_at")


WORK_S: Final = 0.020
WIDE: Final = 1.5
"""Means of so many answers at random arrivals differ by less than this factor."""


@judges("16.p99")
def _judge_p99(answer: Callable[..., Any]) -> Verdict:
    quiet = answer(0.1, [WORK_S], 8, 300)
    expect(
        isinstance(quiet, int | float) and not isinstance(quiet, bool),
        say("no_time", quiet=quiet),
    )
    expect(
        near(quiet, WORK_S, 1e-6),
        say("quiet_is_no_work", work_s=WORK_S, quiet=quiet),
    )
    rare = answer(0.1, [0.010] * 49 + [5.0], 8, 3_000)
    expect(
        near(rare, 5.0, 1e-6),
        say("slow_work_missed", rare=rare),
    )
    busy = [answer(0.8 * 4 / WORK_S, [WORK_S], 4, 4_000) for _ in range(12)]
    expect(
        len(set(busy)) > 1,
        say("no_chance", busy=busy[0]),
    )
    mean, expected = (statistics.fmean(each) for each in (busy, _reference(4)))
    alone = statistics.fmean(_reference(1))
    why = f"160 calls/s, 4 workers, 20 ms of work: the p99 is about {expected:.3f} s, and yours"
    expect(
        mean < 0.5 * alone or mean > WIDE * alone,
        say("one_worker", why=why, mean=mean),
    )
    expect(
        mean < WIDE * expected,
        say("arrivals_too_dense", why=why, mean=mean),
    )
    expect(
        mean > expected / WIDE,
        say("arrivals_too_even", why=why, mean=mean),
    )
    return passed(say("passed_p99"))


def _reference(workers: int) -> list[float]:
    return [p99_at(0.8 * 4 / WORK_S, [WORK_S], workers, 4_000) for _ in range(12)]
