"""Designs on real servers: the model's design meets the target, the tempting one does not."""

import pytest

from kvstore.course import NOT_ATTEMPTED, capstone
from kvstore.course.capstone import PROBE_CALLS, DesignRefused, Plan, ProbeSpent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cores_awake")]


def run_of(case, chosen, duration_s=0.5):
    with capstone.serving_case(case, chosen) as server:
        return capstone.run_design(case, chosen, server, duration_s=duration_s)


def test_the_reference_meets_its_target_and_what_tempts_does_not():
    """The other cases are in test_capstone.py; a machine that stalls has three attempts."""
    case = capstone.case("cap")
    before = run_of(case, case.start)
    best = capstone.reference(case, capstone.price_of(case, before)).design
    bad = capstone.score_plan(case, Plan(design=case.tempting), before, run_of(case, case.tempting))
    for _ in range(3):
        good = capstone.score_plan(case, Plan(design=best), before, run_of(case, best))
        if good.met:
            break

    assert good.met, good
    assert not bad.met, bad
    assert bad.points < good.points


def test_a_probe_is_limited():
    case = capstone.case("disk")
    with capstone.probing(case) as probe:
        with pytest.raises(ProbeSpent, match="1 to 8 calls in flight"):
            probe(10, in_flight=9)
        run = probe(20, in_flight=4)
        with pytest.raises(ProbeSpent, match=f"{PROBE_CALLS - 20} of {PROBE_CALLS} are left"):
            probe(PROBE_CALLS)

    assert 20 == run.issued == run.operations_ok
    assert run.calls["disk_s"].min() > 0


def test_no_server_starts_for_a_refused_design():
    case = capstone.case("lock")
    with pytest.raises(DesignRefused), capstone.serving_case(case, capstone.Design(batch=8)):
        raise AssertionError("a server was started")
    with capstone.serving_case(case, NOT_ATTEMPTED) as server:
        assert server is None
        assert capstone.run_design(case, NOT_ATTEMPTED, server, duration_s=1.0) is None


def test_two_servers_share_the_keys_of_a_case():
    for design in (
        capstone.Design("tasks", 4, changes=("servers=2",)),
        capstone.Design("pipelined", 4, batch=4, streams=2, changes=("servers=2",)),
    ):
        run = run_of(capstone.case("cpu"), design, duration_s=0.1)
        assert run.issued_operations == run.operations_ok > 0, design
        assert run.connections == 2, design
