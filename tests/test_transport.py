"""transport.py: a profile is applied before gRPC is imported, reported by both sides, or named."""

import json
import os
import subprocess
import sys

import pytest

from kvstore import transport
from kvstore.client import load, run_in_process, strategies, workload
from kvstore.server import serving
from kvstore.server.settings import ServerSettings

POLLER = transport.POLLER.experiments


def in_a_new_process(code, **variables):
    environment = {k: v for k, v in os.environ.items() if k != transport.EXPERIMENTS}
    command = [sys.executable, "-c", f"import json, os\n{code}"]
    done = subprocess.run(
        command, env={**environment, **variables}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


SAID = """
from kvstore import transport
print(json.dumps([os.environ.get("GRPC_EXPERIMENTS"), transport.in_force()]))
"""


def test_the_choice_is_applied_when_the_package_is_imported():
    assert [POLLER, "poller"] == in_a_new_process(SAID, COURSE_TRANSPORT="poller")
    assert [None, "stock"] == in_a_new_process(SAID, COURSE_TRANSPORT="stock")
    late = f"import grpc\n{SAID}"
    assert [None, "stock"] == in_a_new_process(late, COURSE_TRANSPORT="poller")


def test_experiments_that_no_profile_has_stay_as_they_are():
    own = "event_engine_fork"

    assert [own, own] == in_a_new_process(SAID, COURSE_TRANSPORT="poller", GRPC_EXPERIMENTS=own)
    assert own == transport.environment("stock", {"GRPC_EXPERIMENTS": own})["GRPC_EXPERIMENTS"]
    assert "GRPC_EXPERIMENTS" not in transport.environment("stock", {"GRPC_EXPERIMENTS": POLLER})


def test_what_this_grpcio_does_not_know_is_named(monkeypatch):
    made_up = transport.POLLER._replace(name="made up", off=("event_engine_listener", "no_such"))
    monkeypatch.setitem(transport.TRANSPORTS, "made up", made_up)
    monkeypatch.setenv("GRPC_EXPERIMENTS", made_up.experiments)

    assert () == transport.unknown(transport.POLLER)
    assert "stock (this grpcio does not know no_such)" == transport.in_force()


def test_both_sides_report_their_profile_in_the_run():
    with serving(transport="poller", read_delay_s=0, write_delay_s=0) as server:
        run = load.run(strategies.bounded, server, workload.reads(), in_flight=4, calls=40)

        other = run_in_process(
            strategies.bounded, server, workload.crud(), in_flight=4, calls=40, transport="poller"
        )

    assert {"OK": 40} == run.outcomes()
    assert "poller" == run.server["versions"]["transport"]
    assert (transport.in_force(), "poller") == (run.host["transport"], other.host["transport"])


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of stock, poller.*got 'fast'"):
        ServerSettings(transport="fast")
    with pytest.raises(ValueError, match=r"one of stock, poller.*got 'fast'"):
        run_in_process(
            strategies.blocking, "localhost:1", workload.crud(), calls=1, transport="fast"
        )
