"""Lesson 13: the choice of a server by its open calls, and a simulator of such choices."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kvstore.course import my_code
from kvstore.course.exercises import Verdict, expect, judges, not_yet, passed
from kvstore.course.lessons import words

say = words("13")

ASKED: Final = 300
"""How often the function is asked with the same counts: a server that may be chosen is, then."""


def _choices(answer: Any, open_calls: Sequence[int], times: int) -> list[int]:
    """Return the choices for the same counts; each must be a server, and change nothing."""
    choices = []
    for _ in range(times):
        passed_on = list(open_calls)
        chosen = answer(passed_on)
        expect(
            passed_on == list(open_calls),
            say("list_changed", open_calls=list(open_calls), passed_on=passed_on),
        )
        expect(
            isinstance(chosen, int) and not isinstance(chosen, bool),
            say("no_number", chosen=chosen),
        )
        expect(
            0 <= chosen < len(open_calls),
            say(
                "no_such_server",
                servers=len(open_calls),
                chosen=chosen,
                last=len(open_calls) - 1,
            ),
        )
        choices.append(chosen)
    return choices


def _takes_turns(choices: Sequence[int], servers: int) -> bool:
    return servers > 1 and all((b - a) % servers == 1 for a, b in itertools.pairwise(choices))


# 13.least_open ------------------------------------------------------------------------------------


def _drawn_counts() -> list[list[int]]:
    """Return lists of counts: small ones first, with and without ties, and some with zeros."""
    rng = random.Random(15)
    drawn = [
        [rng.randrange(lowest, 10) for _ in range(servers)]
        for servers in (1, 2, 3, 5, 8, 30)
        for lowest in (0, 1, 4)
        for _ in range(8)
    ]
    last = [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [40, 7, 9], [3, 90, 8, 4]]
    return [*drawn, *last]


TIES: Final = ([0, 0, 0], [2, 1, 1, 1], [1, 1, 1, 7], [3, 0, 5, 0], [4] * 12)
"""Counts of which several are the lowest."""


@judges("13.least_open")
def _judge_least_open(answer: Any) -> Verdict:
    for open_calls in _drawn_counts():
        (chosen,) = _choices(answer, open_calls, 1)
        if open_calls[chosen] > min(open_calls):
            return not_yet(
                say(
                    "not_the_fewest",
                    why=_not_the_fewest(answer),
                    open_calls=open_calls,
                    chosen=chosen,
                    its_calls=open_calls[chosen],
                    fewest=min(open_calls),
                )
            )
    for open_calls in TIES:
        _look_at_a_tie(answer, open_calls)
    return passed(say("passed_least_open"))


def _not_the_fewest(answer: Any) -> str:
    """Return the message of the policy that the answer follows, if that is a known one."""
    open_calls = [3, 4, 0, 1, 2]
    choices = _choices(answer, open_calls, ASKED)
    counts = Counter(choices)
    if _takes_turns(choices, len(open_calls)):
        return "That is round robin: it does not look at the open calls. "
    if set(counts) == {open_calls.index(max(open_calls))}:
        return "You choose the most open calls: look for the fewest. "
    if set(counts) == {0} or set(counts) == {len(open_calls) - 1}:
        again = _choices(answer, open_calls[::-1], ASKED)
        if set(again) == set(counts):
            return f"Your function returns {choices[0]}, whatever the counts are. "
    if len(counts) == len(open_calls) and min(counts.values()) > ASKED / 15:
        return "A random server ignores the open calls: look for the fewest. "
    if set(counts) == {open_calls.index(1)}:
        return "A server with no open call is free: it counts, too. "
    if set(counts) == {0, 1, 2, 3, 4} - {open_calls.index(max(open_calls))}:
        return "You compare two drawn servers. Here look at all of them. "
    return ""


def _look_at_a_tie(answer: Any, open_calls: Sequence[int]) -> None:
    choices = _choices(answer, open_calls, ASKED)
    lowest = [server for server, calls in enumerate(open_calls) if calls == min(open_calls)]
    which = {lowest[0]: "the first", lowest[-1]: "the last"}.get(choices[0], "the same")
    expect(
        len(set(choices)) > 1,
        say("same_of_a_tie", open_calls=list(open_calls), choice=choices[0], which=which),
    )
    missing = sorted(set(lowest) - set(choices))
    expect(
        not missing,
        say(
            "never_of_a_tie", open_calls=list(open_calls), missing=(missing or [0])[0], asked=ASKED
        ),
    )


# 13.simulate --------------------------------------------------------------------------------------


simulate = my_code.course_version("balance.simulate")


SERVICE_S: Final = 0.02
CALLS: Final = 60


class _Scripted:
    """Chooses the servers in a fixed order, and keeps each report that it gets."""

    def __init__(self, servers: int) -> None:
        drawn = random.Random(servers)
        self._order = [drawn.randrange(servers) for _ in range(CALLS)]
        self.reports: list[list[int]] = []
        self.counts: list[list[int]] = []

    def __call__(self, report: list[int]) -> int:
        expect(
            isinstance(report, list) and len(report) == max(self._order) + 1,
            say("choose_needs_a_list", report=report),
        )
        self.reports.append(report)
        self.counts.append(list(report))
        return self._order[(len(self.reports) - 1) % CALLS]


def _look_at(answer: Any, servers: int, every_s: float) -> None:
    """Compare the answer's times and reports with the reference's, where each choice is fixed."""
    drawn = random.Random(13)
    gaps_s = [drawn.expovariate(0.8 * servers / SERVICE_S) for _ in range(CALLS)]
    arrivals_s = list(itertools.accumulate(gaps_s))
    right, choose = _Scripted(servers), _Scripted(servers)
    expected = simulate(arrivals_s, SERVICE_S, servers, right, every_s)
    times_s = answer(list(arrivals_s), SERVICE_S, servers, choose, every_s)
    expect(
        isinstance(times_s, list) and len(times_s) == CALLS,
        say("no_times", calls=CALLS, times_s=times_s),
    )
    asked = len(choose.reports)
    expect(asked == CALLS, say("not_asked_once", asked=asked, calls=CALLS))
    where = f"With {servers} servers and every_s = {every_s:g}"
    for number, (time_s, right_s) in enumerate(zip(times_s, expected, strict=True)):
        expect(
            abs(time_s - right_s) < 1e-6,
            say(
                "another_time",
                where=where,
                number=number,
                at_s=arrivals_s[number],
                right_s=right_s,
                service_s=SERVICE_S,
                time_s=time_s,
                why=_why_not_this_time(time_s, right_s),
            ),
        )
    for number, (report, counts) in enumerate(zip(choose.counts, right.counts, strict=True)):
        expect(
            list(report) == counts,
            say(
                "another_report",
                where=where,
                number=number,
                counts=counts,
                report=report,
                why=_why_not_this_report(number, report, counts, every_s),
            ),
        )
    for number in range(1, CALLS):
        same = right.reports[number] is right.reports[number - 1]
        expect(
            not same or choose.reports[number] is choose.reports[number - 1],
            say("new_list_too_soon", where=where, number=number),
        )
        expect(
            same or all(choose.reports[number] is not each for each in choose.reports[:number]),
            say("report_changed", where=where, number=number),
        )


def _why_not_this_time(time_s: float, right_s: float) -> str:
    if time_s > right_s:
        return "Does it wait for a call of another server?"
    return "A busy server lets it wait, and the time counts from its arrival."


def _why_not_this_report(number: int, report: list[int], counts: list[int], every_s: float) -> str:
    if every_s:
        return "A report is made if `every_s` or more has passed since the last one, not before."
    if sum(report) and not number:
        return "The new call is not at a server yet: report first, then choose."
    if sum(report) > sum(counts):
        return "A call is open until its end: those that have ended do not count."
    return "The calls that wait are open, too."


@judges("13.simulate")
def _judge_simulate(answer: Any) -> Verdict:
    for servers, every_s in ((1, 0.0), (3, 0.0), (3, 0.1), (8, 0.05)):
        _look_at(answer, servers, every_s)
    return passed(say("passed_simulate"))
