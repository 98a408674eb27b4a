"""Lesson 08, further lessons: what shedding leaves, and how long a queue is short enough."""

import math
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer
from kvstore.course.exercises.drawn import judge_drawn

# 08.answered_of (further/08_a_burst) ------------------------------------------------------------


def answered_of(calls: int, limit: int, served_per_s: float, sent_per_s: float) -> float:
    """Return the limit and what is served while the burst is sent; at most all calls."""
    return min(float(calls), limit + served_per_s * calls / sent_per_s)


def _bursts() -> Any:
    from hypothesis import strategies as st

    rates = st.sampled_from([50.0, 200.0, 1_000.0, 2_500.0, 5_000.0, 8_000.0, 20_000.0])
    return st.tuples(st.integers(1, 20_000), st.integers(1, 5_000), rates, rates)


_ANSWERED_MISTAKES = (
    WrongAnswer(
        lambda n, limit, x, sent: min(n, limit),
        "That is what fits at once. How many places become free while the burst is sent?",
    ),
    WrongAnswer(
        lambda n, limit, x, sent: min(n, x * n / sent),
        "Those are answered while the burst is sent. Then the accepted calls are answered, too.",
    ),
    WrongAnswer(
        lambda n, limit, x, sent: max(n - limit, 0),
        "So many would be refused if no place ever became free.",
    ),
    WrongAnswer(
        lambda n, limit, x, sent: n,
        "That is all of them, but a call that finds no place is refused.",
    ),
    WrongAnswer(
        lambda n, limit, x, sent: limit + x * n / sent,
        "No more calls can be answered than were sent.",
    ),
    WrongAnswer(
        lambda n, limit, x, sent: min(n, limit + 2 * x),
        "The burst does not always take 2 s to send: it takes `calls / sent_per_s`.",
    ),
)


def _judge_answered_of(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        answered_of,
        _bursts(),
        mistakes=_ANSWERED_MISTAKES,
        right="L + X·N/λ, and at most N: the longer the burst is sent, the fewer are refused.",
    )


ANSWERED_OF = Exercise(
    id="08.answered_of",
    title="What shedding leaves",
    hints=(
        "The burst is sent for `calls / sent_per_s` seconds. What does the server do meanwhile?",
        "Each answer frees a place, and the next call that comes takes it.",
        "The limit plus what is served while the burst is sent, at most all: `min(calls, ...)`.",
    ),
    reference=answered_of,
    wrong=_ANSWERED_MISTAKES,
    judge=_judge_answered_of,
)


# 08.in_time_for (further/08_until_it_is_too_late) -----------------------------------------------


def in_time_for_s(offered_per_s: float, threads: int, disk_s: float, deadline_s: float) -> float:
    """Return the seconds until the queue, which grows at λ - X, leaves no time for the disk."""
    served_per_s = threads / disk_s
    if offered_per_s <= served_per_s:
        return math.inf
    longest_wait_s = deadline_s - disk_s
    return longest_wait_s * served_per_s / (offered_per_s - served_per_s)


def _overloads() -> Any:
    """Draw a pool, a rate as a share of its capacity, and a deadline of one disk time or more."""
    from hypothesis import strategies as st

    shares = [0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 4.0]
    return st.builds(
        lambda share, threads, disk_s, times: (
            share * threads / disk_s, threads, disk_s, times * disk_s
        ),
        st.sampled_from(shares),
        st.integers(1, 64),
        st.sampled_from([0.0625, 0.125, 0.25, 0.5]),  # exact, so that λ = X is met exactly
        st.sampled_from([1.0, 1.5, 2.0, 5.0, 20.0]),
    )  # fmt: skip


_IN_TIME_MISTAKES = (
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            math.inf if offered <= c / disk else deadline * c / disk / (offered - c / disk)
        ),
        "A call that waits for its whole deadline has no time left for its own disk.",
    ),
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            math.inf if offered <= c / disk else (deadline - disk) * c / disk / offered
        ),
        "The queue does not grow at λ: calls are served meanwhile, so it grows at λ - X.",
    ),
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            math.inf if offered <= c / disk else (deadline - disk) / (offered - c / disk)
        ),
        "You divide seconds by a rate. How many *calls* may be in the queue?",
    ),
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            math.inf if offered <= 1 / disk else (deadline - disk) / disk / (offered - 1 / disk)
        ),
        "You count on one thread. All of them serve at once, so X is threads / disk_s.",
    ),
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            math.nan if offered == c / disk else (deadline - disk) * c / disk / (offered - c / disk)
        ),
        "At or below the capacity no queue grows: then it goes well for ever, `math.inf`.",
    ),
    WrongAnswer(
        lambda offered, c, disk, deadline: (
            0.0 if offered <= c / disk else (deadline - disk) * c / disk / (offered - c / disk)
        ),
        "Below the capacity every call is in time, for ever: return `math.inf`, not 0.",
    ),
)


def _judge_in_time_for(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        in_time_for_s,
        _overloads(),
        mistakes=_IN_TIME_MISTAKES,
        right="A queue is short enough up to (deadline - disk)·X calls, and it fills at λ - X. "
        "After that, a server that serves in order of arrival answers no call in time.",
    )


IN_TIME_FOR = Exercise(
    id="08.in_time_for",
    title="How long are calls in time?",
    hints=(
        "At which rate is the queue emptied, and at which does it grow?",
        "The last call that is in time may wait for deadline - disk. How many are before it then?",
        "Calls that may wait, (deadline - disk)·X, divided by the growth, λ - X.",
    ),
    reference=in_time_for_s,
    wrong=_IN_TIME_MISTAKES,
    judge=_judge_in_time_for,
)
