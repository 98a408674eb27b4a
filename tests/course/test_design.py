"""Cases, designs and their forecasts: all by arithmetic, no call is sent."""

import dataclasses
import math

import pytest
from made_runs import staircase

from kvstore.course import NOT_ATTEMPTED, design
from kvstore.course.design import NAMED, STATIONS, Design, DesignRefused
from kvstore.course.design.forecasts import MARGIN, candidates
from kvstore.measure.run import NO_CPU, Cpu
from kvstore.server import ServerSettings

CASES = [design.case(seed) for seed in (*NAMED, *range(12))]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
LOCK = design.case("lock")


@every_case
def test_the_station_that_binds_is_the_one_that_the_model_finds(case):
    assert case.binds == design.throughput(case, case.start).binds
    assert case.binds in STATIONS


@every_case
def test_a_reference_design_is_within_all_limits_with_a_margin(case):
    best = design.reference(case)
    start_per_s = design.throughput(case, case.start).value

    case.refuse(best.design)
    assert best.per_s.value >= MARGIN * case.target.needed_per_s(start_per_s)
    assert MARGIN * best.p99_s <= case.target.p99_s
    assert best.design.in_flight <= case.target.most_in_flight
    cheaper = [each for each in candidates(case) if case.cost_days(each) < best.cost_days]
    assert not any(design.forecast(case, each).enough for each in cheaper)


@every_case
def test_neither_the_start_nor_what_tempts_is_enough(case):
    assert not design.forecast(case, case.start).enough
    assert not design.forecast(case, case.tempting).enough


@every_case
def test_a_server_can_be_set_as_the_case_and_its_reference_say(case):
    for each in (case.start, case.tempting, design.reference(case).design):
        ServerSettings(**case.settings(each))


@every_case
def test_nothing_that_has_to_be_found_out_is_told(case):
    shown = str(case) + repr(case)

    hidden = set(ServerSettings.__dataclass_fields__) - {"threads", "group_commit"}
    assert not any(f"{word}=" in shown or f"{word}'" in shown for word in hidden)
    assert f"{1e3 * case.server['write_delay_s']:g} ms" not in str(case)


def test_a_case_of_a_seed_does_not_give_away_its_kind():
    assert str(design.case(32)).startswith("Case 32\n")
    assert "lock" not in str(design.case(32)).split("Changes")[0]


def test_every_station_binds_somewhere():
    assert set(STATIONS) == {design.case(name).binds for name in NAMED}


def test_the_seeds_that_the_lesson_names_are_of_six_kinds():
    assert set(STATIONS) == {design.case(seed).binds for seed in (2, 9, 4, 5, 19, 13)}


def test_a_seed_draws_the_same_case_again_and_others_differ():
    assert design.case(7) == design.case(7)
    assert 12 == len({case.id for case in CASES if case.id.startswith("case_")})
    assert len({case.binds for case in CASES[len(NAMED) :]}) > 3


@pytest.mark.parametrize("seed", ["locks", 1.5, True])
def test_no_case_without_a_seed(seed):
    with pytest.raises(ValueError, match="whole number"):
        design.case(seed)


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

    assert math.isclose(50.0, design.throughput(by_hand, by_hand.start).value)
    assert math.isclose(11 / 0.022, design.throughput(by_hand, freed).value)
    assert math.isclose(64 / 0.032, design.throughput(by_hand, grouped).value, rel_tol=1e-6)
    assert math.isclose(50 / 0.7, design.throughput(by_hand, split).value)
    assert (4, 7) == (by_hand.cost_days(freed), by_hand.cost_days(grouped))


@pytest.mark.parametrize(("times", "enough"), [(1.5, False), (2.5, True)])
def test_a_tail_keeps_a_margin_too(times, enough):
    best = design.reference(LOCK)
    target = dataclasses.replace(LOCK.target, p99_s=times * best.p99_s)

    found = design.forecast(dataclasses.replace(LOCK, target=target), best.design)
    assert enough == found.enough


def test_what_a_call_costs_is_measured_where_the_processor_is_in_question():
    """A hundred calls, 0.2 s of processor at the server's loop: 2 ms each, so 500 a second."""
    run = dataclasses.replace(
        staircase(100), client_cpu=Cpu(0.05, 0.0, 0.05), server_cpu=Cpu(0.2, 0.0, 0.2)
    )
    cpu = design.case("cpu")
    unseen = dataclasses.replace(run, client_cpu=NO_CPU, server_cpu=NO_CPU)

    assert math.isclose(0.002, design.price_of(cpu, run).call_s)
    assert math.isclose(500, design.throughput(cpu, cpu.start, design.price_of(cpu, run)).value)
    assert cpu.price == design.price_of(cpu, unseen)
    assert LOCK.price == design.price_of(LOCK, run)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
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
        ({"changes": ("magic",)}, "nobody knows the change"),
        ({"changes": ("threads=128", "threads=128")}, "the same thing twice"),
        ({"changes": ("threads=128", "asyncio")}, "do not go together"),
        ({"changes": ("threads=32",)}, "is not on offer here"),
        ({"changes": ("asyncio", "per_key", "group_commit")}, "3 changes of the server"),
        (
            {"strategy": "pipelined", "changes": ("servers=2",)},
            "a stream speaks to one of them, so it takes 2",
        ),
        ({"strategy": "pipelined", "batch": 100_000}, "do not fit into one message"),
        ({"strategy": "pipelined", "streams": 65, "in_flight": 65}, "some would never begin"),
    ],
)
def test_an_ordinary_mistake_gets_clear_words(wrong, words):
    made = Design(**{"strategy": "bounded", "in_flight": 4, **wrong})

    with pytest.raises(DesignRefused, match=words):
        LOCK.refuse(made)
    assert words.replace("\\", "") in LOCK.bill(made)


def test_a_design_over_budget_is_refused():
    poor = dataclasses.replace(LOCK, budget_days=3)

    with pytest.raises(DesignRefused, match="it costs 4 days, and there are 3"):
        poor.refuse(Design("bounded", 4, changes=("per_key",)))


def test_what_is_no_design_is_told_how_one_is_written():
    assert "Design(strategy=" in LOCK.bill("bounded x8")
    assert "Not attempted" in LOCK.bill(NOT_ATTEMPTED)
    assert "4 of 12 days" in LOCK.bill(Design("bounded", 8, changes=("per_key",)))
