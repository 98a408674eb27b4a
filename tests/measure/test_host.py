"""host.py: the machine behind the figures, and its disk."""

import json
import os

import grpc
import pytest

from kvstore.measure import cores, describe_host, host
from kvstore.measure.host import fsyncs_s


def test_the_machine_and_the_versions_are_described():
    described = describe_host()

    assert grpc.__version__ == described["grpcio"]
    assert described["processor"]
    assert described["memory_bytes"] > 1e8
    assert {"system", "cores", "python", "protobuf", "uvloop", "numpy", "pandas"} <= set(described)


def test_a_description_can_be_saved():
    assert describe_host() == json.loads(json.dumps(describe_host()))


def test_a_package_that_is_absent_says_so():
    assert "not installed" == host._version("no-such-package")


def test_there_is_a_core_to_run_on():
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_available_memory_is_the_machines_when_no_group_limits_it(monkeypatch):
    monkeypatch.setattr(host, "_CONTROL_GROUPS", (("/no/such/limit", "/no/such/use"),))

    assert 0 < host.available_memory_bytes() < describe_host()["memory_bytes"] * 1.01


def test_a_control_group_that_is_smaller_counts(monkeypatch, tmp_path):
    (tmp_path / "limit").write_text("5000\n")
    (tmp_path / "used").write_text("2000\n")
    monkeypatch.setattr(
        host, "_CONTROL_GROUPS", ((str(tmp_path / "limit"), str(tmp_path / "used")),)
    )

    assert 3000.0 == host.available_memory_bytes()


def test_a_control_group_without_a_limit_does_not(monkeypatch, tmp_path):
    (tmp_path / "limit").write_text("max\n")
    (tmp_path / "used").write_text("2000\n")
    monkeypatch.setattr(
        host, "_CONTROL_GROUPS", ((str(tmp_path / "limit"), str(tmp_path / "used")),)
    )

    assert host.available_memory_bytes() > 2e6


def test_a_group_that_is_over_its_limit_leaves_nothing(monkeypatch, tmp_path):
    (tmp_path / "limit").write_text("1000\n")
    (tmp_path / "used").write_text("2000\n")
    monkeypatch.setattr(
        host, "_CONTROL_GROUPS", ((str(tmp_path / "limit"), str(tmp_path / "used")),)
    )

    assert 0.0 == host.available_memory_bytes()


def test_each_write_takes_its_time_and_nothing_stays(tmp_path):
    taken_s = fsyncs_s(tmp_path, times=5, written_bytes=100)

    assert 5 == len(taken_s)
    assert (taken_s > 0).all()
    assert [] == list(tmp_path.iterdir())


def test_less_than_one_is_refused(tmp_path, subtests):
    for wrong in [{"times": 0}, {"written_bytes": 0}]:
        with (
            subtests.test(wrong=wrong),
            pytest.raises(ValueError, match="must be 1 or more, got 0"),
        ):
            fsyncs_s(tmp_path, **wrong)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="not_there"):
        fsyncs_s(tmp_path / "not_there")
