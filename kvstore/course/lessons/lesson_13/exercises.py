"""Lesson 13: the choice of a server by its open calls, and between two drawn servers."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kvstore.course.exercises import Exercise, Verdict, expect, not_yet, passed

ASKED: Final = 300
"""How often the function is asked with the same counts: a server that may be chosen is, then."""


def _choices(answer: Any, given: Sequence[int], times: int) -> list[int]:
    """Return the choices for the same counts; each must be a server, and change nothing."""
    made = []
    for _ in range(times):
        passed_on = list(given)
        chosen = answer(passed_on)
        expect(
            passed_on == list(given),
            f"With open_calls = {list(given)} it changed the list to {passed_on}. The client counts"
            " the calls; your function only reads them.",
        )
        expect(
            isinstance(chosen, int) and not isinstance(chosen, bool),
            f"Return the number of a server, an int, got {chosen!r:.40}.",
        )
        expect(
            0 <= chosen < len(given),
            f"With {len(given)} servers it returned {chosen}. They are numbered from 0 to"
            f" {len(given) - 1}.",
        )
        made.append(chosen)
    return made


def _takes_turns(made: Sequence[int], servers: int) -> bool:
    return servers > 1 and all((b - a) % servers == 1 for a, b in itertools.pairwise(made))


# 13.least_open ------------------------------------------------------------------------------------


def least_open(open_calls: list[int]) -> int:
    """Return a server with the fewest open calls; one of several at random."""
    fewest = min(open_calls)
    return random.choice([server for server, calls in enumerate(open_calls) if calls == fewest])


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


def _judge_least_open(answer: Any) -> Verdict:
    for given in _drawn_counts():
        (chosen,) = _choices(answer, given, 1)
        if given[chosen] > min(given):
            return not_yet(
                f"{_not_the_fewest(answer)}With open_calls = {given} it returned {chosen}, a"
                f" server with {given[chosen]} open calls. Another one has {min(given)}."
            )
    for given in TIES:
        _look_at_a_tie(answer, given)
    return passed(
        "always a server with the fewest open calls, and of several not always the same one."
    )


def _not_the_fewest(answer: Any) -> str:
    """Return the message of the policy that the answer follows, if that is a known one."""
    given = [3, 4, 0, 1, 2]
    made = _choices(answer, given, ASKED)
    counts = Counter(made)
    if _takes_turns(made, len(given)):
        return "That is round robin: it does not look at the open calls. "
    if set(counts) == {given.index(max(given))}:
        return "You choose the most open calls: look for the fewest. "
    if set(counts) == {0} or set(counts) == {len(given) - 1}:
        again = _choices(answer, given[::-1], ASKED)
        if set(again) == set(counts):
            return f"Your function returns {made[0]}, whatever the counts are. "
    if len(counts) == len(given) and min(counts.values()) > ASKED / 15:
        return "A random server ignores the open calls: look for the fewest. "
    if set(counts) == {given.index(1)}:
        return "A server with no open call is free: it counts, too. "
    if set(counts) == {0, 1, 2, 3, 4} - {given.index(max(given))}:
        return "You compare two drawn servers. Here look at all of them. "
    return ""


def _look_at_a_tie(answer: Any, given: Sequence[int]) -> None:
    made = _choices(answer, given, ASKED)
    lowest = [server for server, calls in enumerate(given) if calls == min(given)]
    which = {lowest[0]: "the first", lowest[-1]: "the last"}.get(made[0], "the same")
    expect(
        len(set(made)) > 1,
        f"With open_calls = {list(given)} it always returned {made[0]}: {which} of the servers"
        " with the fewest. Every client would call that one. Take one of them at random.",
    )
    missing = sorted(set(lowest) - set(made))
    expect(
        not missing,
        f"With open_calls = {list(given)} it never returned {(missing or [0])[0]} in {ASKED} tries,"
        " and that server has the fewest as well. Take any of them.",
    )


LEAST_OPEN = Exercise(
    id="13.least_open",
    title="The fewest open calls",
    hints=(
        "`min(open_calls)` is the lowest count. Which servers have it?",
        "`[server for server, calls in enumerate(open_calls) if calls == fewest]` is the list of"
        " these servers.",
        "`random.choice(servers)` takes one of a list at random.",
    ),
    reference=least_open,
    judge=_judge_least_open,
)


# 13.two_choices -----------------------------------------------------------------------------------


def two_choices(open_calls: list[int]) -> int:
    """Draw two different servers at random, and return the one with fewer open calls."""
    one, other = random.sample(range(len(open_calls)), 2)
    return one if open_calls[one] < open_calls[other] else other


MANY: Final = 12
"""More servers than other trials have."""
DRAWS: Final = 4_000
RANKED: Final = [30, 10, 50, 20, 40]
"""Five servers; the one with the fewest open calls is chosen where it is one of the two: 2 of 5."""
TOLERANCE: Final = 0.05
"""How far a share may be from its expectation: more than six standard deviations."""


def _shares(answer: Any, given: Sequence[int]) -> list[float]:
    """Return how often each server was chosen, those with the fewest open calls first."""
    made = _choices(answer, given, DRAWS)
    counts = Counter(given[server] for server in made)
    return [counts[calls] / DRAWS for calls in sorted(given)]


def _expected(servers: int, drawn: int = 2) -> list[float]:
    """Return the shares of the servers, by rank, if the best of `drawn` different ones is taken."""
    left, shares = 1.0, []
    for rank in range(servers):
        after = 1.0
        for place in range(drawn):
            after *= max(0, servers - rank - 1 - place) / (servers - place)
        shares.append(left - after)
        left = after
    return shares


def _near(shares: Sequence[float], expected: Sequence[float]) -> bool:
    return all(abs(a - b) < TOLERANCE for a, b in zip(shares, expected, strict=True))


def _judge_two_choices(answer: Any) -> Verdict:
    for given in ([3, 7], [7, 3], RANKED, RANKED[::-1], [4, 4, 4]):
        _choices(answer, given, 1)
    shares, pair = _shares(answer, RANKED), _shares(answer, [3, 7])
    if not _near(shares, _expected(5)) or pair[1]:
        return not_yet(_two_problem(answer, shares, pair))
    expect(
        len(set(_choices(answer, [4, 4, 4], ASKED))) > 1,
        "With open_calls = [4, 4, 4] it returned always the same one: draw both.",
    )
    never = sorted({*range(MANY)} - {*_choices(answer, [4] * MANY, 2 * ASKED)})
    expect(
        not never,
        f"Of {MANY} servers, all with 4 open calls, some were never drawn in {2 * ASKED} draws:"
        f" {never}. Draw both from all servers.",
    )
    return passed(
        "two different servers, drawn anew for each call, and the one with fewer open calls. Of"
        " five servers, the busiest one was never chosen, and the one with the fewest open calls"
        " in two of five draws."
    )


def _is_drawn(answer: Any, server: int) -> bool:
    """Return whether this one of five servers is ever chosen where it has the fewest open calls."""
    return server in _choices(answer, [9 * (number != server) for number in range(5)], ASKED)


def _two_problem(answer: Any, shares: Sequence[float], pair: Sequence[float]) -> str:
    seen = (
        f"With open_calls = {RANKED} in {DRAWS:,} draws, the server with the fewest open calls was"
        f" chosen in {shares[0]:.0%}, and the one with the most in {shares[-1]:.0%}. With two"
        " different servers drawn at random it is 40 % and 0 %."
    )
    if _takes_turns(_choices(answer, RANKED, 40), 5):
        return f"That is round robin: draw two servers at random. {seen}"
    if _near(shares, _expected(5)[::-1]):
        return f"You choose the busier one of the two. {seen}"
    if never := [server for server in range(5) if not _is_drawn(answer, server)]:
        if len(never) >= 3:
            return f"You look at the same servers each time: draw two for each call. {seen}"
        return f"Server {never[0]} is never drawn: draw both from all servers. {seen}"
    if shares[0] > 0.99:
        return f"That is the fewest of all. Draw two first, and look at these two only. {seen}"
    if _near(shares, [0.2] * 5):
        return f"A random server: you draw, but you do not compare the two. {seen}"
    if _near(shares, _expected(5, 3)):
        return f"That is the best of three servers: draw two. {seen}"
    if 0.02 < pair[1] < 0.35:
        return f"You may draw the same server twice. The two must differ. {seen}"
    return f"Not all pairs of servers are equally likely. {seen}"


TWO_CHOICES = Exercise(
    id="13.two_choices",
    title="Two random choices",
    hints=(
        "`random.sample(range(len(open_calls)), 2)` draws two different servers.",
        "Compare `open_calls[one]` with `open_calls[other]`.",
        "`return one if open_calls[one] < open_calls[other] else other`",
    ),
    reference=two_choices,
    judge=_judge_two_choices,
)
