"""host.py: the machine behind the figures, and its disk."""

import json

import grpc
import pytest

from kvstore.measure import describe_host, host
from kvstore.measure.host import fsyncs_s


def test_the_machine_and_the_versions_are_described():
    described = describe_host()

    assert grpc.__version__ == described["grpcio"]
    assert described["processor"]
    assert described["memory_bytes"] > 1e8
    assert described == json.loads(json.dumps(described))


@pytest.mark.parametrize(
    ("limit", "free_bytes"), [("5000\n", 3000.0), ("1000\n", 0.0), ("max\n", None)]
)
def test_a_control_group_that_is_smaller_than_the_machine_counts(
    limit, free_bytes, monkeypatch, tmp_path
):
    (tmp_path / "limit").write_text(limit)
    (tmp_path / "used").write_text("2000\n")
    group = (str(tmp_path / "limit"), str(tmp_path / "used"))
    monkeypatch.setattr(host, "_CONTROL_GROUPS", (group,))
    found = host.available_memory_bytes()

    assert found == free_bytes or (free_bytes is None and found > 2e6)


def test_each_write_takes_its_time_and_nothing_stays(tmp_path):
    taken_s = fsyncs_s(tmp_path)

    assert 50 == len(taken_s)
    assert (taken_s > 0).all()
    assert [] == list(tmp_path.iterdir())
