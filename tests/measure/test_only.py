"""only.py: the calls of one kind, and nothing of the others."""

import pytest
from traces import CALLS, run_of

from kvstore.measure import audit, only


def test_the_calls_of_one_kind_are_left():
    run = run_of(CALLS)
    creates = only(run, "create")

    assert ["create", "create"] == creates.calls["operation"].tolist()
    assert (1.0 + 8.0) / 2 == creates.mean_residence_s
    assert run.window_s == creates.window_s
    assert 5 == len(run.records)
    assert audit(creates).holds


def test_a_kind_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="got 'batch'"):
        only(run_of(CALLS), "batch")
