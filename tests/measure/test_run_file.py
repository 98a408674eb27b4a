"""run.py: saved runs come back whole or not at all, and what is no run is refused."""

import json
import math
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
from traces import run_of

from kvstore.measure import Run, Sample

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


def test_a_run_without_calls_or_samples_can_be_saved(tmp_path):
    loaded = Run.load(run_of([]).save(str(tmp_path / "run.npz")))

    assert 0 == len(loaded.records)
    assert list(Sample._fields) == list(loaded.samples.columns)


def test_a_name_without_npz_stays_as_it_is(run, tmp_path):
    """numpy likes to add an ending of its own."""
    path = run.save(tmp_path / "Tuesday's run")

    assert [path] == list(tmp_path.iterdir())


def test_saving_again_replaces_the_file(run, tmp_path):
    run_of([]).save(tmp_path / "run.npz")
    run.save(tmp_path / "run.npz")

    assert 5 == len(Run.load(tmp_path / "run.npz").records)


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the death of a process needs one to kill")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_killed_while_saving_leaves_no_half_written_file(run, tmp_path, monkeypatch):
    """Nothing of the name that was asked for exists until all of it does."""
    path = tmp_path / "run.npz"

    def killed(file, **_):
        file.write(b"half")
        file.flush()
        os._exit(9)

    monkeypatch.setattr(np, "savez_compressed", killed)
    pid = os.fork()
    if not pid:
        run.save(path)  # never returns
    os.waitpid(pid, 0)

    assert not path.exists()


# ---- what is not a run ---------------------------------------------------------------------


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        Run.load(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "text", [b"", b"not a run", b"PK\x03\x04 nor this", b"\x93NUMPY\x01\x00", b"\x80\x04K\x01."]
)
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "run.npz").write_bytes(text)

    with pytest.raises(ValueError, match=r"run\.npz is not a saved run: "):
        Run.load(tmp_path / "run.npz")


def test_a_truncated_file_is_refused_wherever_it_was_cut(run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])

        with pytest.raises(ValueError, match="is not a saved run"):
            Run.load(path)


def test_a_file_with_a_byte_changed_is_refused(run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    damaged = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as parts:  # inside the records, where no header would notice
        start = parts.getinfo("records.npy").header_offset
    damaged[start + 80] ^= 0xFF
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match="is not a saved run"):
        Run.load(path)


def header_of(path):
    with np.load(path) as stored:
        return json.loads(str(stored["header"])), dict(stored)


def test_a_run_of_another_version_names_both(run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    header, parts = header_of(path)
    np.savez(path, **{**parts, "header": np.array(json.dumps({**header, "format": 99}))})

    with pytest.raises(ValueError, match="its format is 99, this version reads 1"):
        Run.load(path)


@pytest.mark.parametrize("lacking", ["window_s", "client_cpu", "sample_columns", "format"])
def test_a_run_that_lacks_a_fact_is_refused(run, tmp_path, lacking):
    path = run.save(tmp_path / "run.npz")
    header, parts = header_of(path)
    del header[lacking]
    np.savez(path, **{**parts, "header": np.array(json.dumps(header))})

    with pytest.raises(ValueError, match="is not a saved run"):
        Run.load(path)


def test_records_of_another_layout_are_refused(run, tmp_path):
    path = run.save(tmp_path / "run.npz")
    parts = header_of(path)[1]
    np.savez(path, **{**parts, "records": np.zeros(3)})

    with pytest.raises(ValueError, match="is not a saved run"):
        Run.load(path)


def test_no_saved_run_can_bring_code_with_it(tmp_path):
    """A run may come from a stranger; pickles are never read."""
    np.savez(tmp_path / "run.npz", header=np.array([print], dtype=object))

    with pytest.raises(ValueError, match="is not a saved run"):
        Run.load(tmp_path / "run.npz")
