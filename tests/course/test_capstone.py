"""Cases, designs and their forecasts, by arithmetic: no call is made."""

import dataclasses
import math

import pytest
from failures import failures
from made_runs import staircase

from kvstore.course import NOT_ATTEMPTED, capstone
from kvstore.course.capstone import NAMED, STATIONS, Design, DesignRefused
from kvstore.course.capstone.forecasts import MARGIN, candidates
from kvstore.measure.sampler import NO_CPU, Cpu
from kvstore.server import ServerSettings

CASES = [capstone.case(seed) for seed in (*NAMED, *range(12))]
LOCK = capstone.case("lock")


def the_model_finds_the_bottleneck(case):
    assert case.binds == capstone.throughput(case, case.start).binds
    assert case.binds in STATIONS


def the_reference_is_within_all_limits_with_a_margin(case):
    best = capstone.reference(case)
    start_per_s = capstone.throughput(case, case.start).value
    case.refuse(best.design)
    assert best.per_s.value >= MARGIN * case.target.needed_per_s(start_per_s)
    assert MARGIN * best.p99_s <= case.target.p99_s
    assert best.design.in_flight <= case.target.most_in_flight
    cheaper = [each for each in candidates(case) if case.cost_days(each) < best.cost_days]
    assert not any(capstone.forecast(case, each).enough for each in cheaper)


def neither_the_start_nor_the_tempting_design_is_enough(case):
    assert not capstone.forecast(case, case.start).enough
    assert not capstone.forecast(case, case.tempting).enough


def a_server_accepts_the_settings_of_its_designs(case):
    for each in (case.start, case.tempting, capstone.reference(case).design):
        ServerSettings(**case.settings(each))


def the_description_hides_the_settings(case):
    shown = str(case) + repr(case)
    hidden = set(ServerSettings.__dataclass_fields__) - {"threads", "group_commit"}
    assert not any(f"{word}=" in shown or f"{word}'" in shown for word in hidden)
    assert f"{1e3 * case.server['write_delay_s']:g} ms" not in str(case)


@pytest.mark.parametrize(
    "check",
    [
        the_model_finds_the_bottleneck,
        the_reference_is_within_all_limits_with_a_margin,
        neither_the_start_nor_the_tempting_design_is_enough,
        a_server_accepts_the_settings_of_its_designs,
        the_description_hides_the_settings,
    ],
    ids=lambda check: check.__name__,
)
def test_every_case(check):
    assert {} == failures(check, CASES)


def test_a_case_of_a_seed_does_not_give_away_its_kind():
    assert str(capstone.case(32)).startswith("Case 32\n")
    assert "lock" not in str(capstone.case(32)).split("Changes")[0]


def test_every_station_is_a_bottleneck_of_a_name_and_of_a_seed_of_the_lesson():
    assert set(STATIONS) == {capstone.case(name).binds for name in NAMED}
    assert set(STATIONS) == {capstone.case(seed).binds for seed in (2, 9, 4, 5, 19, 13)}


def test_a_seed_draws_the_same_case_again_and_others_differ():
    assert capstone.case(7) == capstone.case(7)
    assert 12 == len({case.id for case in CASES if case.id.startswith("case_")})
    assert len({case.binds for case in CASES[len(NAMED) :]}) > 3


def test_a_seed_is_a_whole_number_or_a_name():
    for seed in ("locks", 1.5, True):
        with pytest.raises(ValueError, match="seed must be a whole number or"):
            capstone.case(seed)


def test_a_forecast_worked_out_by_hand():
    """Reads of 10 and writes of 30 ms, half and half, under one lock: 50 a second."""
    by_hand = dataclasses.replace(
        LOCK,
        server={"read_delay_s": 0.01, "write_delay_s": 0.03, "locking": "global", "threads": 64},
        workload=dataclasses.replace(LOCK.workload, mix={"retrieve": 0.5, "update": 0.5}),
    )
    freed = Design("bounded", 11, changes=("per_key",))
    grouped = Design("pipelined", 1, batch=64, changes=("group_commit",))
    split = Design("bounded", 8, changes=("servers=2",))
    by_hand = dataclasses.replace(by_hand, offers={"per_key": 4, "group_commit": 6, "servers=2": 5})

    assert math.isclose(50.0, capstone.throughput(by_hand, by_hand.start).value)
    assert math.isclose(11 / 0.022, capstone.throughput(by_hand, freed).value)
    assert math.isclose(64 / 0.032, capstone.throughput(by_hand, grouped).value, rel_tol=1e-6)
    assert math.isclose(50 / 0.7, capstone.throughput(by_hand, split).value)
    assert (4, 7) == (by_hand.cost_days(freed), by_hand.cost_days(grouped))


def test_a_tail_has_a_margin_too():
    best = capstone.reference(LOCK)
    for times, enough in ((1.5, False), (2.5, True)):
        target = dataclasses.replace(LOCK.target, p99_s=times * best.p99_s)
        found = capstone.forecast(dataclasses.replace(LOCK, target=target), best.design)
        assert enough == found.enough, times


def test_what_a_call_costs_is_measured_where_the_processor_is_in_question():
    """A hundred calls, 0.2 s of processor at the server's loop: 2 ms each, so 500 a second."""
    run = dataclasses.replace(
        staircase(100), client_cpu=Cpu(0.05, 0.0, 0.05), server_cpu=Cpu(0.2, 0.0, 0.2)
    )
    cpu = capstone.case("cpu")
    unseen = dataclasses.replace(run, client_cpu=NO_CPU, server_cpu=NO_CPU)

    assert math.isclose(0.002, capstone.price_of(cpu, run).call_s)
    assert math.isclose(500, capstone.throughput(cpu, cpu.start, capstone.price_of(cpu, run)).value)
    assert cpu.price == capstone.price_of(cpu, unseen)
    assert LOCK.price == capstone.price_of(LOCK, run)


MISTAKES = [
    ({"strategy": "turbo"}, "strategy must be one of"),
    ({"in_flight": 0}, "in_flight must be a whole number"),
    ({"strategy": "blocking", "in_flight": 8}, "blocking has one call"),
    ({"batch": 8}, "needs messages on a stream"),
    ({"streams": 2}, "needs messages on a stream"),
    ({"strategy": "pipelined", "in_flight": 2, "streams": 4}, "some have none"),
    ({"in_flight": 2, "connections": 4}, "would carry nothing"),
    ({"strategy": "pipelined", "connections": 2}, "2 connections for 1 streams"),
    ({"changes": "per_key"}, "comma included"),
    ({"changes": None}, r"or \(\) for none"),
    ({"changes": ("magic",)}, "changes must be among"),
    ({"changes": ("threads=128", "threads=128")}, "change the same setting"),
    ({"changes": ("threads=128", "asyncio")}, "either asyncio or more threads"),
    ({"changes": ("threads=32",)}, "here, got threads=32"),
    ({"changes": ("asyncio", "per_key", "group_commit")}, "at most 2 changes of the server"),
    (
        {"strategy": "pipelined", "changes": ("servers=2",)},
        "a stream goes to one server, so use 2 or more",
    ),
    ({"strategy": "pipelined", "batch": 100_000}, "do not fit into one message"),
    ({"strategy": "pipelined", "streams": 65, "in_flight": 65}, "some would never begin"),
]


def test_a_common_mistake_has_a_clear_message():
    def check(case):
        wrong, words = case
        design = Design(**{"strategy": "bounded", "in_flight": 4, **wrong})
        with pytest.raises(DesignRefused, match=words):
            LOCK.refuse(design)
        assert words.replace("\\", "") in LOCK.bill(design)

    assert {} == failures(check, MISTAKES)


def test_a_design_over_budget_is_refused():
    poor = dataclasses.replace(LOCK, budget_days=3)

    with pytest.raises(DesignRefused, match="the budget is 3 days, and it costs 4"):
        poor.refuse(Design("bounded", 4, changes=("per_key",)))


def test_the_bill_of_a_wrong_type_shows_how_to_write_a_design():
    assert "Design(strategy=" in LOCK.bill("bounded x8")
    assert "Not attempted" in LOCK.bill(NOT_ATTEMPTED)
    assert "4 of 12 days" in LOCK.bill(Design("bounded", 8, changes=("per_key",)))
