"""Histories of concurrent clients have an order that explains them; the short form.

`tests/long/test_histories.py` has more operations, kills, etcd, and an outside judge.
"""

import math

import pytest
from long import checker
from long.checker import Event, Undecided, linearizable
from long.histories import History
from long.linearizable import caught, judge, run

from kvstore.protocol import ALREADY_EXISTS, CREATE, DELETE, NOT_FOUND, OK, RETRIEVE, UPDATE

NEVER = math.inf
A, B = b"a", b"b"
TABLE = [
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
    ([Event(RETRIEVE, b"", NOT_FOUND, 0, 1), Event(CREATE, A, OK, 0, 1, after=0)], True),
    ([Event(RETRIEVE, A, OK, 0, 1), Event(CREATE, A, OK, 0, 1, after=0)], False),
    # Another client's delete comes in between.
    (
        [
            Event(CREATE, A, OK, 0, 3), Event(RETRIEVE, b"", NOT_FOUND, 0, 3, after=0),
            Event(DELETE, b"", OK, 1, 2),
        ],
        True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("history", "expected"), TABLE)
def test_a_history_is_linearizable_if_an_order_explains_it(history, expected):
    assert expected is linearizable(history)


def test_a_search_has_a_limit(monkeypatch):
    monkeypatch.setattr(checker, "MOST_TRIED", 100)
    at_once = [Event(UPDATE, b"%d" % number, -1, 0, NEVER) for number in range(12)]

    with pytest.raises(Undecided, match="13 operations"):
        linearizable([*at_once, Event(RETRIEVE, b"other", OK, 1, 2)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "kills"),
    [
        ({}, 0),
        ({"use_asyncio": True}, 0),
        ({"use_asyncio": True, "store": "sqlite:", "group_commit": True}, 2),
    ],
    ids=["threads", "asyncio", "sqlite"],
)
def test_an_order_explains_what_all_clients_saw(settings, kills, record_property):
    history = History(seed=1)
    run(history, settings, 1_500, kills=kills)
    judged = judge(history)
    record_property("judged", str(judged))

    assert not judged.wrong
    assert not judged.undecided
    assert judged.operations >= 1_500
    assert judged.histories >= 1_500 // 32
    assert judged.chained >= 100


@pytest.mark.slow
def test_a_planted_bug_is_found():
    assert caught("two replies of a stream are exchanged")
