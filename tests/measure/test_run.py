"""run.py: every figure against numbers worked out by hand, and saved runs come back whole."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
from traces import Made, run_of

from kvstore.measure import Outcome, Run
from kvstore.protocol import (
    BATCH,
    CANCELLED,
    CREATE,
    KINDS,
    NO_ANSWER,
    NOT_FOUND,
    RETRIEVE,
    STATUSES,
)

DEADLINE_EXCEEDED, UNAVAILABLE = STATUSES.index("DEADLINE_EXCEEDED"), STATUSES.index("UNAVAILABLE")


def test_the_figures_of_a_run_worked_out_by_hand(run):
    """Throughput and latency are of the calls answered OK; a refusal is an answer, too."""
    assert (3, 3 / 10, 4 / 10) == (run.operations_ok, run.throughput_per_s, run.answered_per_s)
    assert [1.0, 2.0, 4.0] == [run.latency_s(quantile) for quantile in (0.0, 0.5, 1.0)]
    assert (1 + 2 + 3 + 4 + 8) / 5 == run.mean_residence_s
    assert {"OK": 3, "NOT_FOUND": 1, "NO_ANSWER": 1} == run.outcomes()
    assert dict.fromkeys(["create", "retrieve", "update", "delete"], 0.25) == run.mix()


def test_a_call_that_was_due_is_late_from_then_on_and_a_batch_counts_its_operations():
    """Sent 3 s late and answered in 1 s: latency 4 s, residence time 1 s."""
    late = run_of([Made(3.0, 4.0, due_s=0.0)])
    batch = run_of([Made(0.0, 2.0, BATCH, NOT_FOUND, operations=8, ok_operations=7)])

    assert (4.0, 1.0) == (late.latency_s(0.5), late.mean_residence_s)
    assert (7, 3.5) == (batch.operations_ok, batch.throughput_per_s)


@pytest.mark.parametrize(
    "status",
    [
        DEADLINE_EXCEEDED,
        UNAVAILABLE,
    ],
)
def test_calls_that_cost_the_server_nothing_are_not_in_the_mix(status):
    run = run_of([Made(0, 1, RETRIEVE), Made(0, 1, CREATE, status)])

    assert {"retrieve": 1.0} == run.mix()


def test_a_run_of_no_calls_has_figures_too():
    empty = run_of([], window_s=0.0)

    assert (0.0, 0.0, {}, {}) == (
        empty.throughput_per_s,
        empty.answered_per_s,
        empty.mix(),
        empty.outcomes(),
    )
    assert math.isnan(empty.mean_residence_s)
    assert math.isnan(empty.latency_s(0.5))
    assert 0 == len(empty.calls)


def test_a_run_reads_as_a_sentence(run):
    assert (
        "<Run bounded x2: 0.3 operations/s over 10 s, p50 2 s, p99 3.96 s;"
        " 3 calls OK, 1 NOT_FOUND, 1 NO_ANSWER>"
    ) == repr(run)
    assert "nan" not in repr(run_of([Made(0, 1, status=CANCELLED)]))


def test_a_run_says_when_the_server_stopped_answering_and_how_calls_ended_after_it():
    late = Made(4, 5, status=DEADLINE_EXCEEDED)
    ends = [Made(0, 0.1, status=DEADLINE_EXCEEDED), Made(0, 3.2), late, late]
    facts = {"outcome": Outcome.SERVER_UNRESPONSIVE, "unresponsive": {"10.0.0.1:1": 3.2}}
    said = (
        "server unresponsive: the server at 10.0.0.1:1 stopped answering after 3.2 s:"
        " 2 calls ended with DEADLINE_EXCEEDED"
    )

    assert said == run_of(ends, **facts).ended_by
    assert repr(run_of(ends, **facts)).endswith(f"[{said}]>")


def test_a_run_that_ended_early_or_whose_server_never_answered_says_so():
    assert repr(run_of([Made(0, 1)], outcome="interrupted")).endswith("[interrupted]>")
    ends = [Made(0, 1, status=each) for each in (NO_ANSWER, DEADLINE_EXCEEDED, CANCELLED)]
    facts = {"outcome": Outcome.SERVER_UNRESPONSIVE, "unresponsive": {"10.0.0.1:1": 0.0}}

    assert run_of(ends, **facts).ended_by.endswith(
        "the server at 10.0.0.1:1 answered no call:"
        " 1 call ended with DEADLINE_EXCEEDED and 1 call ended with NO_ANSWER"
    )


EVERY_FACT = {
    "machine_cpu_s": 3.5,
    "machine_stolen_s": 0.25,
    "connections": 2,
    "connect_s": (0.1, 0.2),
    "operations_sent": 9,
    "unresponsive": {"a:1": 3.2},
    "unrecorded": 1,
    "clock_step_s": -2.0,
    "kinds": (*KINDS, "check"),
    "outcome": Outcome.SERVER_UNRESPONSIVE,
}
"""Those that the fixture leaves as they are by default."""


def test_a_saved_run_comes_back_with_every_fact(run, tmp_path):
    run = dataclasses.replace(run, **EVERY_FACT)
    loaded = Run.load(run.save(tmp_path / "run.npz"))

    assert run.records.tobytes() == loaded.records.tobytes()
    pd.testing.assert_frame_equal(run.samples, loaded.samples, check_dtype=False)
    pd.testing.assert_frame_equal(run.calls, loaded.calls)
    for fact in {each.name for each in dataclasses.fields(Run)} - {"records", "sample_rows"}:
        assert repr(getattr(run, fact)) == repr(getattr(loaded, fact))
    assert repr(run) == repr(loaded)


def test_a_save_that_fails_half_way_leaves_the_old_file_and_no_other(run, tmp_path, monkeypatch):
    path = run.save(tmp_path / "run.npz")
    before = path.read_bytes()

    def half(file, **_):
        file.write(before[: len(before) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(OSError, match="no space left"):
        run.save(path)

    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


@pytest.fixture
def saved(run, tmp_path):
    return run.save(tmp_path / "run.npz")


def rewrite(path, header=lambda header: header, **parts):
    """Put what a function makes of its header, and other parts, into the file of a run."""
    with np.load(path) as stored:
        parts = {**stored, **parts}
    parts["header"] = np.array(json.dumps(header(json.loads(str(parts["header"])))))
    np.savez(path, **parts)


def assert_refused(path, says=""):
    with pytest.raises(ValueError, match=rf"run\.npz is not a saved run: {says}.*Load a file that"):
        Run.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 nor this",
        b"\x80\x04K\x01.",
    ],
)
def test_a_file_of_something_else_is_refused(content, tmp_path):
    (tmp_path / "run.npz").write_bytes(content)

    assert_refused(tmp_path / "run.npz")


@pytest.mark.parametrize(
    "share",
    [
        0.5,
        0.999,
    ],
)
def test_a_truncated_file_is_refused_wherever_it_was_cut(share, saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])

    assert_refused(saved)


@pytest.mark.parametrize(
    ("changes", "records", "says"),
    [
        ({"format": 99}, {}, "its format is 99, this version reads 1: update the course"),
        ({"outcome": "<b>"}, {}, "'<b>' is not a valid Outcome"),
        ({"client_cpu": [1.0]}, {}, "Cpu"),
        ({}, {"records": np.zeros(3)}, "its records must have the columns of CALL"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(changes, records, says, saved):
    rewrite(saved, lambda header: header | changes, **records)

    assert_refused(saved, says)


def test_no_saved_run_can_bring_code_with_it(tmp_path):
    """A run may come from a stranger; pickles are never read."""
    np.savez(tmp_path / "run.npz", header=np.array([print], dtype=object))

    assert_refused(tmp_path / "run.npz")
