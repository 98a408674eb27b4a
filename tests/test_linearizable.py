"""proofs.linearizable: which histories have an order, and which have none."""

import math

import pytest
from tables import for_each

from kvstore.protocol import ALREADY_EXISTS, CREATE, DELETE, NOT_FOUND, OK, RETRIEVE, UPDATE
from proofs.linearizable import checker
from proofs.linearizable.checker import Event, Undecided, linearizable
from proofs.linearizable.planted import BUGS

NEVER = math.inf
A, B = b"a", b"b"


@for_each(
    ("history", "expected"),
    [
        ([], True),
        ([Event(RETRIEVE, b"", NOT_FOUND, 0, 1)], True),
        ([Event(RETRIEVE, A, OK, 0, 1)], False),
        ([Event(CREATE, A, OK, 0, 1), Event(RETRIEVE, A, OK, 2, 3)], True),
        ([Event(CREATE, A, OK, 0, 1), Event(RETRIEVE, b"", NOT_FOUND, 2, 3)], False),
        ([Event(CREATE, A, OK, 0, 3), Event(RETRIEVE, b"", NOT_FOUND, 1, 2)], True),  # overlap
        ([Event(CREATE, A, OK, 0, 3), Event(CREATE, B, OK, 1, 2)], False),
        ([Event(CREATE, A, OK, 0, 3), Event(CREATE, B, ALREADY_EXISTS, 1, 2)], True),
        # Read twice, and the older value last: the second read is stale.
        (
            [
                Event(CREATE, A, OK, 0, 1), Event(UPDATE, B, OK, 2, 9),
                Event(RETRIEVE, B, OK, 3, 4), Event(RETRIEVE, A, OK, 5, 6),
            ],
            False,
        ),
        # Of unknown effect: it may have been done, later, or never, but not undone.
        ([Event(CREATE, A, -1, 0, NEVER), Event(RETRIEVE, b"", NOT_FOUND, 1, 2)], True),
        ([Event(CREATE, A, -1, 0, NEVER), Event(RETRIEVE, A, OK, 1, 2)], True),
        (
            [
                Event(CREATE, A, -1, 0, NEVER), Event(RETRIEVE, A, OK, 1, 2),
                Event(RETRIEVE, b"", NOT_FOUND, 3, 4),
            ],
            False,
        ),
        # One batch: both at the same time, and the second after the first.
        ([Event(CREATE, A, OK, 0, 1), Event(RETRIEVE, A, OK, 0, 1, after=0)], True),
        ([Event(DELETE, b"", OK, 0, 1), Event(CREATE, A, ALREADY_EXISTS, 0, 1, after=0)], False),
    ],
)  # fmt: skip
def test_a_history_is_linearizable_if_an_order_explains_it(history, expected):
    assert expected is linearizable(history)


def test_a_search_has_a_limit(monkeypatch):
    monkeypatch.setattr(checker, "MOST_TRIED", 100)
    at_once = [Event(UPDATE, b"%d" % number, -1, 0, NEVER) for number in range(12)]

    with pytest.raises(Undecided, match="13 operations"):
        linearizable([*at_once, Event(RETRIEVE, b"other", OK, 1, 2)])


def test_twelve_bugs_are_planted_and_more():
    assert len(BUGS) >= 12
    assert 4 <= sum(bug.short for bug in BUGS.values())
