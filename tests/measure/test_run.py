"""run.py: every figure against numbers worked out by hand, and saved runs come back whole."""

import dataclasses
import json
import math
import os
import stat
import zipfile

import numpy as np
import pandas as pd
import pytest
from traces import Made, run_of

from kvstore.measure import Outcome, Run, summary
from kvstore.measure.recorder import CALL, PACKED
from kvstore.protocol import (
    BATCH,
    CREATE,
    NO_ANSWER,
    NOT_FOUND,
    RETRIEVE,
    STATUSES,
)

DEADLINE_EXCEEDED, UNAVAILABLE = STATUSES.index("DEADLINE_EXCEEDED"), STATUSES.index("UNAVAILABLE")


def test_the_figures_of_a_run_worked_out_by_hand(run):
    """Of five calls in 10 s three end OK; a refusal is an answer, and silence is not."""
    assert (3, 3 / 10) == (run.operations_ok, run.throughput_per_s)
    assert 4 / 10 == run.answered_per_s
    assert (1 + 2 + 3 + 4 + 8) / 5 == run.mean_residence_s
    assert [1.0, 2.0, 4.0] == [run.latency_s(share) for share in (0.0, 0.5, 1.0)]
    assert {"OK": 3, "NOT_FOUND": 1, "NO_ANSWER": 1} == run.outcomes()
    assert {"create": 0.25, "retrieve": 0.25, "update": 0.25, "delete": 0.25} == run.mix()
    batch = run_of([Made(0.0, 2.0, BATCH, NOT_FOUND, operations=8, ok_operations=7)])
    assert (7, 3.5) == (batch.operations_ok, batch.throughput_per_s)


def test_a_call_that_was_due_is_late_from_then_on():
    """Sent 3 s late and answered in 1 s: latency 4 s, residence time 1 s."""
    late = run_of([Made(3.0, 4.0, due_s=0.0)])

    assert 4.0 == late.latency_s(0.5)
    assert 1.0 == late.mean_residence_s


def test_calls_that_cost_the_server_nothing_are_not_in_the_mix(subtests):
    for status in [1, DEADLINE_EXCEEDED, 8, UNAVAILABLE, NO_ANSWER]:
        with subtests.test(status=status):
            assert {"retrieve": 1.0} == run_of(
                [Made(0, 1, RETRIEVE), Made(0, 1, CREATE, status)]
            ).mix()


def test_a_run_of_no_calls_has_figures_too():
    empty = run_of([], window_s=0.0)

    assert (0.0, 0.0, {}, {}) == (
        empty.throughput_per_s, empty.answered_per_s, empty.mix(), empty.outcomes()
    )  # fmt: skip
    assert math.isnan(empty.mean_residence_s)
    assert math.isnan(empty.latency_s(0.5))
    assert "nan" not in repr(empty)
    assert 0 == len(empty.calls)


def test_calls_are_a_table_with_words_in_order_of_sending(run):
    calls = run.calls

    assert [0.0, 0.5, 1.0, 1.5, 2.0] == calls["sent_s"].tolist()
    assert ["create", "retrieve", "update", "delete", "create"] == calls["operation"].tolist()
    assert ["OK", "OK", "NOT_FOUND", "OK", "NO_ANSWER"] == calls["status"].tolist()
    assert [1.0, 2.0, 3.0, 4.0, 8.0] == calls["residence_s"].tolist()


def test_a_run_reads_as_a_sentence(run):
    assert (
        "<Run bounded x2: 0.3 operations/s over 10 s, p50 2 s, p99 3.96 s;"
        " 3 calls OK, 1 NOT_FOUND, 1 NO_ANSWER>"
    ) == repr(run)


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
    assert [said] == summary(run_of(ends, **facts)).loc["ended by"].tolist()


# ---- saving --------------------------------------------------------------------------------


def test_a_saved_run_comes_back_with_every_fact(run, tmp_path):
    loaded = Run.load(run.save(tmp_path / "run.npz"))

    assert run.records.tobytes() == loaded.records.tobytes()
    pd.testing.assert_frame_equal(run.samples, loaded.samples, check_dtype=False)
    pd.testing.assert_frame_equal(run.calls, loaded.calls)
    for fact in ("strategy", "in_flight", "settings", "server", "host", "started_at",
                 "window_s", "issued", "outcome", "client_cpu"):  # fmt: skip
        assert getattr(run, fact) == getattr(loaded, fact)
    assert math.isnan(loaded.server_cpu.user_s)
    assert repr(run) == repr(loaded)


def test_records_that_were_saved_packed_are_read_as_all_others(run, tmp_path):
    """Files of the first edition hold them as they were recorded."""
    packed = dataclasses.replace(run, records=run.records.astype(PACKED))
    loaded = Run.load(packed.save(tmp_path / "run.npz"))

    assert CALL == loaded.records.dtype
    assert run.records.tobytes() == loaded.records.tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the death of a process needs one to kill")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_killed_while_saving_leaves_no_half_written_file(run, tmp_path, monkeypatch):
    """The file does not exist under its name until it is complete."""
    path = tmp_path / "run.npz"

    monkeypatch.setattr(os, "replace", lambda *_: os._exit(9))
    pid = os.fork()
    if not pid:
        run.save(path)  # never returns, unless it replaces nothing
        os._exit(0)
    os.waitpid(pid, 0)

    assert not path.exists()


def test_a_link_is_followed_and_only_the_owner_may_read_the_file(run, tmp_path):
    (tmp_path / "latest.npz").symlink_to("run.npz")
    run.save(tmp_path / "latest.npz")

    assert (tmp_path / "latest.npz").is_symlink()
    assert 5 == len(Run.load(tmp_path / "run.npz").records)
    assert 0o600 == stat.S_IMODE((tmp_path / "run.npz").stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a device needs a system that has some")
def test_a_device_is_written_to_and_never_replaced(run, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    run.save(pipe)
    content = os.read(reader, 1_000_000)  # it fits into the pipe
    os.close(reader)
    (tmp_path / "run.npz").write_bytes(content)

    assert pipe.is_fifo()
    assert 5 == len(Run.load(tmp_path / "run.npz").records)


def test_values_of_metadata_are_not_saved(run, tmp_path):
    secret = dataclasses.replace(run, settings={"metadata": {"authorization": "Bearer 4711"}})
    path = secret.save(tmp_path / "run.npz")

    assert ["authorization"] == list(Run.load(path).settings["metadata"])
    with zipfile.ZipFile(path) as parts:
        assert "4711".encode("utf-32-le") not in parts.read("header.npy")


# ---- what is not a run ---------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 0.3, 0.9, 1])
def test_a_file_that_is_cut_off_or_changed_is_refused(length, run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as parts:  # inside the records, where no header would notice
        whole[parts.getinfo("records.npy").header_offset + 80] ^= 0xFF
    path.write_bytes(whole[: int(length * len(whole))])

    with pytest.raises(ValueError, match=r"run\.npz is not a saved run: .*Load a file that"):
        Run.load(path)


@pytest.mark.parametrize("text", [b"not a run", b"\x93NUMPY\x01\x00", b"\x80\x04K\x01."])
def test_a_file_of_something_else_is_refused(text, tmp_path):
    (tmp_path / "run.npz").write_bytes(text)

    with pytest.raises(ValueError, match=r"run\.npz is not a saved run: "):
        Run.load(tmp_path / "run.npz")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        Run.load(tmp_path / "none.npz")


def test_no_saved_run_can_bring_code_with_it(tmp_path):
    """A run may come from a stranger; pickles are never read."""
    np.savez(tmp_path / "run.npz", header=np.array([print], dtype=object))

    with pytest.raises(ValueError, match="is not a saved run"):
        Run.load(tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("says", "changed", "records"),
    [
        ("its format is 99, this version of the course reads 1", {"format": 99}, None),
        ("'<b>' is not a valid Outcome", {"outcome": "<b>"}, None),
        ("its records must have the columns of CALL", {}, np.zeros(3)),
    ],
)
def test_what_this_version_cannot_read_is_named(says, changed, records, run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    with np.load(path) as stored:
        parts = dict(stored)
    parts["header"] = np.array(json.dumps(json.loads(str(parts["header"])) | changed))
    parts["records"] = parts["records"] if records is None else records
    np.savez(path, **parts)

    with pytest.raises(ValueError, match=f"is not a saved run: {says}"):
        Run.load(path)
