"""Designs that are really run: what the model calls enough is enough, what tempts is not."""

import pytest

from kvstore.course import NOT_ATTEMPTED, design
from kvstore.course.design import PROBE_CALLS, DesignRefused, Plan, ProbeSpent

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cores_awake")]


def ran(case, chosen, duration_s=0.5):
    with design.served(case, chosen) as server:
        return design.tried(case, chosen, server, duration_s=duration_s)


def test_the_reference_meets_its_target_and_what_tempts_does_not():
    """The other cases by arithmetic, in `test_design`; a machine that stood still may try again."""
    case = design.case("cap")
    before = ran(case, case.start)
    best = design.reference(case, design.price_of(case, before)).design
    bad = design.scored(case, Plan(design=case.tempting), before, ran(case, case.tempting))
    for _ in range(3):
        good = design.scored(case, Plan(design=best), before, ran(case, best))
        if good.met:
            break

    assert good.met, good
    assert not bad.met, bad
    assert bad.points < good.points


def test_a_visit_is_bounded():
    case = design.case("disk")
    with design.probing(case) as probe:
        with pytest.raises(ProbeSpent, match="1 to 8 calls in flight"):
            probe(10, in_flight=9)
        run = probe(20, in_flight=4)
        with pytest.raises(ProbeSpent, match=f"{PROBE_CALLS - 20} of {PROBE_CALLS} are left"):
            probe(PROBE_CALLS)

    assert 20 == run.issued == run.operations_ok
    assert run.calls["disk_s"].min() > 0


def test_nothing_starts_for_a_design_that_cannot_be_had():
    case = design.case("lock")
    with pytest.raises(DesignRefused), design.served(case, design.Design(batch=8)):
        raise AssertionError("a server was started")
    with design.served(case, NOT_ATTEMPTED) as server:
        assert server is None
        assert design.tried(case, NOT_ATTEMPTED, server, duration_s=1.0) is None


@pytest.mark.parametrize(
    "chosen",
    [
        design.Design("tasks", 4, changes=("servers=2",)),
        design.Design("pipelined", 4, batch=4, streams=2, changes=("servers=2",)),
    ],
    ids=str,
)
def test_two_servers_share_out_the_keys_of_a_case(chosen):
    run = ran(design.case("cpu"), chosen, duration_s=0.1)

    assert run.issued_operations == run.operations_ok > 0
    assert run.connections == 2
