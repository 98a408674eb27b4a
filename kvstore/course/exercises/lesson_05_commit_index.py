"""Lesson 05: how far a log is safe whose entries are acknowledged out of order."""

import random
from collections.abc import Sequence
from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed

# Entry 2 comes late, 4 twice (its stream broke in between), 7 never.
ACKNOWLEDGED = (1, 3, 4, 2, 4, 6, 5, 8, 9)
COMMITTED = [1, 1, 1, 4, 4, 4, 6, 6, 6]


def commit_indices(acknowledged: Sequence[int]) -> list[int]:
    """After each acknowledgement, the highest index up to which no entry is missing."""
    seen: set[int] = set()
    index = 0
    over_time = []
    for entry in acknowledged:
        seen.add(entry)
        while index + 1 in seen:
            index += 1
        over_time.append(index)
    return over_time


def _judge_commit(answer: Any) -> Verdict:
    found = list(answer(list(ACKNOWLEDGED)))
    if len(found) != len(ACKNOWLEDGED):
        return not_yet(
            f"{len(ACKNOWLEDGED)} acknowledgements came, and after each the commit index is asked"
            f" for: {len(ACKNOWLEDGED)} numbers, got {len(found)}."
        )
    if found == COMMITTED:
        shuffled = list(range(1, 201))
        random.Random(5).shuffle(shuffled)
        if list(answer(shuffled)) != commit_indices(shuffled):
            return not_yet("right for nine entries, and wrong for 200 in an order of chance.")
        return passed(
            "It never moves over a gap, and when the gap closes it catches up at once: that is how"
            " replies out of order become a log in order."
        )
    at = next(
        place for place, pair in enumerate(zip(found, COMMITTED, strict=True)) if _differ(*pair)
    )
    so_far = f"after the acknowledgements {list(ACKNOWLEDGED[: at + 1])} you say {found[at]}"
    if found[at] == max(ACKNOWLEDGED[: at + 1]):
        return not_yet(
            f"{so_far}, the highest one: an entry below it is not acknowledged yet, and would be"
            " lost if the leader died now."
        )
    if found[at] == at + 1 or found[at] == len(set(ACKNOWLEDGED[: at + 1])):
        return not_yet(
            f"{so_far}, which is how many came: but which ones? A count does not see the gap."
        )
    if found[at] == COMMITTED[at] - 1 and found[0] == 0:
        return not_yet(
            f"{so_far}: entries count from 1, and with nothing committed the index is 0."
        )
    if found[at] < COMMITTED[at]:
        return not_yet(
            f"{so_far}: entries up to {COMMITTED[at]} are all there. One acknowledgement that"
            " closes a gap can move the index by several steps."
        )
    return not_yet(f"{so_far}, but up to {COMMITTED[at]} nothing is missing, and no further.")


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other)


def _one_step_each(acknowledged: Sequence[int]) -> list[int]:
    seen: set[int] = set()
    index, over_time = 0, []
    for entry in acknowledged:
        seen.add(entry)
        if index + 1 in seen:
            index += 1
        over_time.append(index)
    return over_time


COMMIT_INDEX = Exercise(
    id="05.commit_index",
    title="How far is the log safe?",
    statement=(
        "Write `commit_indices(acknowledged)`: entries are numbered 1, 2, 3, and the list says in"
        " which order their acknowledgements came, some of them twice. Return a list: after each"
        " acknowledgement, the highest index up to which *every* entry is acknowledged (0 if none)."
    ),
    hints=(
        "After 1 and 3 the index is 1: entry 2 is missing. What happens when 2 comes?",
        "Keep a set of all indices that were acknowledged; a second acknowledgement then does"
        " no harm.",
        "After each acknowledgement: `while index + 1 in seen: index += 1`, not `if`.",
    ),
    reference=commit_indices,
    wrong=(
        WrongAnswer(
            lambda acknowledged: [max(acknowledged[: n + 1]) for n in range(len(acknowledged))],
            "the highest one",
        ),
        WrongAnswer(lambda acknowledged: list(range(1, len(acknowledged) + 1)), "how many came"),
        WrongAnswer(_one_step_each, "by several steps"),
        WrongAnswer(
            lambda acknowledged: [index - 1 for index in commit_indices(acknowledged)],
            "entries count from 1",
        ),
        WrongAnswer(
            lambda acknowledged: commit_indices(acknowledged)[-1:], "after each the commit"
        ),
    ),
    judge=_judge_commit,
)
