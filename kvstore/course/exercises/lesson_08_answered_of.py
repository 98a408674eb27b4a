"""Lesson 08: how many calls of a burst a server with few places answers."""

from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def answered_of(calls: int, places: int, served_per_s: float, sent_per_s: float) -> float:
    """The places, and what is served while the burst is still being sent; never more than all."""
    return min(calls, places + served_per_s * calls / sent_per_s)


def _judge(answer: Any) -> Verdict:
    if not near(found := float(answer(10_000, 500, 1_000.0, 5_000.0)), 2_500.0):
        return not_yet(_why_not_2500(found))
    if not near(found := float(answer(10_000, 500, 8_000.0, 5_000.0)), 10_000.0):
        return not_yet(
            f"a server faster than its sender answers {found:,.0f} of 10,000 calls in your words: "
            "no more can be answered than were sent."
        )
    if not near(found := float(answer(300, 500, 1_000.0, 5_000.0)), 300.0):
        return not_yet(
            f"300 calls and 500 places gave {found:,.0f} answers: there is a place for each."
        )
    return passed("L + X·N/λ, at most N: the longer the burst is sent, the fewer are refused.")


def _why_not_2500(found: float) -> str:
    if near(found, 500.0):
        return (
            "500 is what fits at once. But the burst is not sent in an instant: how many places "
            "become free meanwhile?"
        )
    if near(found, 2_000.0):
        return "2,000 are answered while the burst is sent. And who has a place then: is he lost?"
    if near(found, 9_500.0):
        return "that is how many would be refused, if no place ever became free."
    if near(found, 10_000.0):
        return "that is all of them: the server refuses who finds no place."
    return (
        f"10,000 calls at 5,000/s, 500 places, 1,000/s served gave {found:,.4g}: for how long is "
        "the burst sent, and how many places become free in that time?"
    )


ANSWERED_OF = Exercise(
    id="08.answered_of",
    title="What shedding leaves",
    statement=(
        "Write `answered_of(calls, places, served_per_s, sent_per_s)`: how many calls of a burst "
        "are answered OK. The client sends `calls` at `sent_per_s`; the server lets `places` in "
        "at once, waiting or being served, and answers `served_per_s`; it refuses the others."
    ),
    hints=(
        "The burst is sent for `calls / sent_per_s` seconds. What does the server do meanwhile?",
        "Each answer frees a place, and the next call that comes takes it.",
        "Places plus what is served while the burst is sent, but at most all: `min(calls, ...)`.",
    ),
    reference=answered_of,
    wrong=(
        WrongAnswer(lambda n, places, x, sent: places, "what fits at once"),
        WrongAnswer(lambda n, places, x, sent: x * n / sent, "is he lost"),
        WrongAnswer(lambda n, places, x, sent: n - places, "would be refused"),
        WrongAnswer(lambda n, places, x, sent: n, "that is all of them"),
        WrongAnswer(lambda n, places, x, sent: places + x * n / sent, "no more can be answered"),
        WrongAnswer(
            lambda n, places, x, sent: (
                max(places + 2_000, n) if x > sent else places + x * n / sent
            ),
            "there is a place for each",
        ),
    ),
    judge=_judge,
)
