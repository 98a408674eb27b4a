"""host.py: the machine behind the figures."""

import json
import os

import grpc

from kvstore.measure import cores, describe_host, host


def test_the_machine_and_the_versions_are_told():
    told = describe_host()

    assert grpc.__version__ == told["grpcio"]
    assert told["processor"]
    assert told["memory_bytes"] > 1e8
    assert {"system", "cores", "python", "protobuf", "uvloop", "numpy", "pandas"} <= set(told)


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
