"""turns.py: a run cut into its turns, against a trace worked out by hand."""

import math

import pandas as pd
import pytest
from traces import Made, run_of

from kvstore.measure import Sample, turns

# Two turns of three calls, and one that is left over; pairs of sent and done, in seconds.
CALLS = [
    (0.0, 1.0), (0.1, 1.5), (0.2, 1.4),
    (2.0, 2.5), (2.2, 2.3), (2.4, 2.9),
    (4.0, 4.25),
]  # fmt: skip


@pytest.fixture
def run():
    samples = [Sample(at_s, 0, 0, 0, held, held / 2, 1, 1) for at_s, held in SEEN]
    return run_of([Made(*call) for call in CALLS], in_flight=3, samples=pd.DataFrame(samples))


SEEN = [(0.5, 3e8), (1.0, 5e8), (2.5, 4e8)]


def test_each_turn_is_told_by_its_own_calls(run):
    table = turns(run)

    assert [3, 3, 1] == table["calls"].tolist()
    assert [0.0, 2.0, 4.0] == table["begins_s"].tolist()
    assert pytest.approx([0.2, 0.4, 0.0]) == table["sending_s"].tolist()
    assert pytest.approx([1.5, 0.9, 0.25]) == table["answered_s"].tolist()
    assert pytest.approx([1.2, 0.5, 0.25]) == table["last_s"].tolist()
    assert [3, 2, 1] == table["most_in_flight"].tolist()


def test_memory_is_the_most_that_was_seen_in_the_turn(run):
    table = turns(run)

    assert [5e8, 4e8] == table["client_bytes"].tolist()[:2]
    assert [2.5e8, 2e8] == table["server_bytes"].tolist()[:2]
    assert math.isnan(table["client_bytes"].iloc[2])


def test_the_turns_hold_every_call_once(run):
    assert len(CALLS) == turns(run)["calls"].sum() == turns(run)["ok"].sum()


def test_a_run_without_calls_has_no_turns():
    assert 0 == len(turns(run_of([], in_flight=3)))
