"""Levels and steps made by hand: what counts as the ceiling, and which rate the search finds."""

import heapq
import random
from dataclasses import replace

import pytest

from kvstore.load_test.bottleneck import Cores, limit_of
from kvstore.load_test.estimates import Estimate, Level
from kvstore.load_test.levels import Calibration
from kvstore.load_test.report import Report, as_text
from kvstore.load_test.search import Objective, growing, step_of
from kvstore.measure import Cpu, Run, ServerReport
from kvstore.measure.recorder import Recorder, sample_rows
from kvstore.protocol import STATUSES

OK, LATE, RESOURCE_EXHAUSTED = map(
    STATUSES.index, ("OK", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED")
)
OBJECTIVE = Objective(latency_s=0.05)


def run_of_recorder(recorder: Recorder, **facts) -> Run:
    """A run of ten seconds with these records; `rate_per_s` makes it an open loop."""
    rate_per_s = facts.pop("rate_per_s", None)
    records = recorder.array()
    usual = {
        "strategy": "bounded",
        "in_flight": 4,
        "settings": {"rate_per_s": rate_per_s, "paced": rate_per_s is not None, "deadline_s": 1.0},
        "server": ServerReport(),
        "host": {"cores": 2},
        "started_at": "2026-01-01T12:00:00+00:00",
        "window_s": float(records["done_s"].max()),
        "issued": len(records),
        "outcome": "complete",
        "records": records,
        "sample_rows": sample_rows([]),
        "client_cpu": Cpu(1.0, 0.0),
        "server_cpu": Cpu(1.0, 0.0),
        "machine_cpu_s": 2.0,
    }
    return Run(**{**usual, **facts})


def level(in_flight, per_s, *, failed=0, ended=100):
    return Level(
        in_flight=in_flight,
        throughput=Estimate.within(per_s, 0.01),
        residence=Estimate.within(in_flight / per_s, 0.01),
        ended_per_s=per_s,
        ended_residence_s=in_flight / per_s,
        in_flight_mean=in_flight,
        statuses={"OK": ended - failed, "DEADLINE_EXCEEDED": failed},
    )


GOOD = [level(1, 10.0), level(2, 20.0), level(4, 39.0)]


def test_a_level_with_failures_is_no_ceiling_however_fast_it_looks():
    calibration = Calibration(levels=[*GOOD, level(8, 2400.0, failed=97)], machine_cores=2)

    assert 8 == calibration.fails_from.in_flight
    assert 39.0 == calibration.ceiling_per_s


def test_no_failure_of_a_few_calls_does_not_make_later_ones_new():
    lucky = [level(1, 8.0, ended=7), level(2, 16.0, failed=4, ended=20), level(4, 31.0, failed=20)]

    calibration = Calibration(levels=lucky, machine_cores=2)

    assert calibration.fails_from is None
    assert 31.0 == calibration.ceiling_per_s
    assert calibration.fails_always == pytest.approx(24 / 127)


@pytest.mark.parametrize(
    ("late_s", "busy_s", "full", "generator"),
    [
        (0.0, 0.0, False, False),
        (0.02, 0.0, False, True),  # sends late with calls to spare
        (0.02, 0.0, True, False),  # sends late because the service has not answered
        (0.0, 9.5, False, True),
    ],
)
def test_a_step_counts_only_if_the_generator_kept_its_due_times(late_s, busy_s, full, generator):
    recorder = Recorder()
    for number in range(1000):
        due_s = number / 100
        recorder.record(due_s, due_s + late_s, due_s + late_s + 0.009, 1, 0, 1, 1)
    run = run_of_recorder(
        recorder, in_flight=1 if full else 50, client_cpu=Cpu(busy_s, 0.0), rate_per_s=100
    )

    step = step_of(run, OBJECTIVE)

    assert generator == bool(step.generator), step
    assert step.latency_s == pytest.approx(late_s + 0.009)
    assert 100 == step.rate_per_s


@pytest.mark.parametrize(("cut", "meets"), [(0, True), (5, False)])
def test_a_step_in_which_too_many_calls_were_cut_off_does_not_meet_it(cut, meets):
    """At the end of the step, and too few for the latency at p99 to show them."""
    recorder = Recorder()
    for number in range(1000):
        due_s, is_cut = number / 100, number >= 1000 - cut
        ended_s = 10.1 if is_cut else due_s + 0.009
        recorder.record(due_s, due_s, ended_s, 1, LATE if is_cut else 0, 1, not is_cut)
    run = run_of_recorder(recorder, in_flight=50, rate_per_s=100)
    run = replace(run, settings=run.settings | {"duration_s": 10.0})

    assert meets == step_of(run, OBJECTIVE).meets


def arrivals_at(rate_per_s, capacity_per_s, *, refused=0.0, seconds=10.0):
    """Even arrivals at a queue with one server; a part of the calls is refused at once."""
    recorder, free_s, rng = Recorder(), 0.0, random.Random(3)
    for number in range(int(rate_per_s * seconds)):
        due_s = number / rate_per_s
        if rng.random() < refused:
            recorder.record(due_s, due_s, due_s, 1, RESOURCE_EXHAUSTED, 1, 0)
            continue
        free_s = max(due_s, free_s) + 1 / capacity_per_s
        recorder.record(due_s, due_s, free_s, 1, 0, 1, 1)
    return run_of_recorder(recorder, in_flight=10_000, rate_per_s=rate_per_s)


@pytest.mark.parametrize(
    ("rate_per_s", "grows"),
    [
        (398, False),
        (441, True),
    ],
)
def test_a_step_whose_queue_grows_fails_although_its_latency_is_still_low(rate_per_s, grows):
    run = arrivals_at(rate_per_s, 400)
    step = step_of(run, Objective(latency_s=100.0))

    assert grows == bool(growing(run)), growing(run)
    assert grows == (not step.meets)


def test_a_step_full_of_failures_is_blamed_on_the_service():
    """The generator is late as well, and that is judged after the failures."""
    run = arrivals_at(400, 500, refused=0.5)

    assert not step_of(run, OBJECTIVE).meets
    step = step_of(replace(run, client_cpu=Cpu(9.9, 0.0)), OBJECTIVE)
    assert "" == step.generator
    assert "RESOURCE_EXHAUSTED" in step.why


@pytest.mark.parametrize(
    ("cores", "more", "name"),
    [
        (Cores(0.95, 1.0, 0.3, 0.3, 0.0), {}, "the load generator"),
        (Cores(0.2, 0.3, 0.5, 0.1, 0.0), {"refuses": "96 %"}, "calls that the service refuses"),
        (Cores(0.2, 0.3, 1.0, 0.95, 0.0), {}, "one thread of the server"),
        (Cores(0.2, 0.3, 1.0, 0.3, 0.0), {}, "one core of the server"),
        (Cores(0.2, 0.3, 2.0, 0.5, 0.9), {}, "not known"),
        (Cores(0.7, 1.0, 2.2, 0.6, 0.0), {}, "a processor that client and server share"),
    ],
)
def test_what_sets_the_ceiling_is_said_with_evidence_only(cores, more, name):
    limit = limit_of(cores, machine_cores=4, knee=8.0, **more)

    assert name == limit.name
    assert limit.evidence


@pytest.mark.parametrize("draw", [lambda rng: 0.01, lambda rng: rng.expovariate(100)])
@pytest.mark.parametrize("in_flight", [1, 3, 4, 5, 20])
def test_the_interval_of_a_prediction_holds_constant_and_varied_work(draw, in_flight):
    """A worker of 10 ms that is reached after 30 ms, simulated call by call."""
    calibration = Calibration(levels=[level(1, 25.0), level(8, 100.0)], machine_cores=2)
    rng, arrivals, free_s = random.Random(1), [0.0] * in_flight, 0.0
    for _ in range(20_000):
        free_s = max(free_s, heapq.heappop(arrivals)) + draw(rng)
        heapq.heappush(arrivals, free_s + 0.03)
    low, high = calibration.closed_loop(in_flight).interval

    assert low <= 20_000 / free_s <= high
    assert high <= 1.6 * low


def test_a_lost_call_is_said_with_the_figures():
    recorder = Recorder()
    for number in range(50):
        recorder.record(float("nan"), number, number + 0.5, 1, OK, 1, 1)

    texts = [as_text(Report(run=run_of_recorder(recorder, issued=sent))) for sent in (50, 51)]

    assert [False, True] == ["do not trust" in " ".join(each.split()) for each in texts]
