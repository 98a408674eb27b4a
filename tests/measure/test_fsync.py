"""fsync.py: as many times as were asked for, and nothing left behind."""

import pytest

from kvstore.measure.fsync import fsyncs_s


def test_each_write_takes_its_time_and_nothing_stays(tmp_path):
    taken_s = fsyncs_s(tmp_path, times=5, written_bytes=100)

    assert 5 == len(taken_s)
    assert (taken_s > 0).all()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [{"times": 0}, {"written_bytes": 0}])
def test_less_than_one_is_refused(wrong, tmp_path):
    with pytest.raises(ValueError, match="must be 1 or more, got 0"):
        fsyncs_s(tmp_path, **wrong)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="not_there"):
        fsyncs_s(tmp_path / "not_there")
