"""Reasons to distrust a run, each from records made by hand, and quantiles with their intervals."""

import dataclasses
import math
import random

import numpy as np
import pytest
from traces import Made, run_of

from kvstore.measure import Cpu, Sample, findings, latencies_s, machine_limit, quantile
from kvstore.measure.figures import needs, ranks
from kvstore.measure.recorder import sample_rows
from kvstore.protocol import CREATE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED


def closed_loop(took_s, *, in_flight=1, **facts):
    """Calls of callers who wait for each reply: call k takes `took_s(k)` seconds."""
    free_s = [0.0] * in_flight
    calls = []
    for number in range(1000):
        caller = number % in_flight
        sent_s = free_s[caller]
        free_s[caller] = sent_s + took_s(number)
        calls.append(Made(sent_s, free_s[caller]))
    quiet = {"client_cpu": Cpu(0.1, 0), "server_cpu": Cpu(0.1, 0), "machine_cpu_s": 0.2}
    return run_of(calls, **{"in_flight": in_flight, **quiet, **facts})


def noisy(number, *, seed=1):
    return 0.010 * (1 + 0.1 * random.Random(seed * 1000 + number).random())


def last_is_long(number):
    return noisy(number) + (0.2 if number == 999 else 0)


def sent_in_a_row(**facts):
    """100 calls of 50 ms: the client needs 23 ms for the sending."""
    return run_of([Made(n * 0.00023, 0.05 + n * 0.00023) for n in range(100)], **facts)


SHARED = {"in_flight": 20, "client_cpu": Cpu(0.25, 0.075, loop_s=0.2)}
"""A generator that uses 0.6 of a core in a run of 0.525 s, 0.4 of it in one thread."""


def names(run):
    return [each.name for each in findings(run)]


def test_a_steady_run_of_a_quiet_machine_is_trusted():
    for seed in range(20):
        assert [] == names(closed_loop(lambda number, seed=seed: noisy(number, seed=seed)))


@pytest.mark.parametrize(
    ("took_s", "says"),
    [
        (lambda n: 0.030 if n < 200 else noisy(n), "were a warm-up"),
        (lambda n: 0.010 + 0.0001 * n, "no steady state: the latency rose"),
    ],
)
def test_a_warm_up_that_moves_the_mean_is_found(took_s, says):
    found = {each.name: each.text for each in findings(closed_loop(took_s))}

    assert says in found["warm-up"]


def test_the_end_of_the_warm_up_is_where_the_slow_calls_end():
    """Four batches of 30 ms, then 11 and 9 ms in turn: with a batch more cut, the mean is 9.93."""
    run = closed_loop(lambda n: 0.030 if n < 200 else 0.009 + 0.002 * (n // 50 % 2 == 0))
    found = findings(run)[0]

    assert "the first 6 s of the run" in found.text
    assert "20 % of the calls, the mean latency is 14 ms, without it 10 ms" in found.details


def test_client_and_server_that_take_turns_are_a_doubt():
    """Lesson 03 on two cores, 0.53 of its bound: 40 % of the machine, and calls wait for it."""
    cores = {"cores": 2, "logical_cpus": 2}
    half = Cpu(0.2, 0.0, loop_s=0.05)
    run = closed_loop(noisy, in_flight=20, client_cpu=half, server_cpu=half, host=cores)
    alone = dataclasses.replace(run, in_flight=1)
    idle = dataclasses.replace(run, client_cpu=Cpu(0.05, 0.0), server_cpu=Cpu(0.05, 0.0))

    assert "processor" in names(run)
    assert "take turns" in machine_limit(run)
    assert "processor" not in names(alone)
    assert "" == machine_limit(idle)


def cut_off(share, status=DEADLINE_EXCEEDED):
    run = closed_loop(noisy)
    records = run.records.copy()
    records["status"][: int(share * len(records))] = status
    return dataclasses.replace(run, records=records)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: closed_loop(noisy, in_flight=10), []),
        # 100 of 1,000 open at the end, one of them for as long as the run
        (lambda: closed_loop(last_is_long, in_flight=100), ["short", "noise"]),
        # 100 of 1,000 open at the end, but they are answered as fast as the others
        (lambda: closed_loop(noisy, in_flight=100), ["noise"]),
        # all were sent at once: a burst, whose end is what it measures
        (lambda: closed_loop(noisy, in_flight=1_000), ["noise"]),
        (lambda: sent_in_a_row(in_flight=0, settings={"calls": 100}), ["noise"]),
        (lambda: sent_in_a_row(in_flight=100, settings={"calls": 100}), ["short", "noise"]),
        (lambda: cut_off(0.005), []),
        (lambda: cut_off(0.02), ["censored"]),
        (lambda: cut_off(0.02, RESOURCE_EXHAUSTED), []),  # refused at once: nothing was cut off
        (lambda: closed_loop(noisy, clock_step_s=-3.0), ["clock"]),
        (lambda: closed_loop(noisy, clock_step_s=0.02), []),
        (lambda: closed_loop(noisy, client_cpu=Cpu(9.9, 0.0)), ["generator"]),
        (lambda: closed_loop(noisy, **SHARED, server_cpu=Cpu(0.15, 0.0)), ["generator"]),
        (lambda: closed_loop(noisy, **SHARED, server_cpu=Cpu(0.4, 0.0)), ["processor"]),
        # the same CPU time at a given rate: nothing shows that the server could do more
        (lambda: closed_loop(noisy, **SHARED, settings={"paced": True}), []),
        # 6 % and 12 % of the mean latency
        (lambda: closed_loop(noisy, client_cpu=Cpu(0.6, 0.05)), []),
        (lambda: closed_loop(noisy, client_cpu=Cpu(1.2, 0.1)), ["generator"]),
        (lambda: closed_loop(noisy, machine_cpu_s=20.5), ["other programs"]),
    ],
)
def test_each_check_fires_for_its_own_cause_alone(run, expected, monkeypatch):
    monkeypatch.setattr("kvstore.measure.validity.psutil.cpu_count", lambda: 2)

    assert expected == names(run())


def test_a_generator_that_was_stopped_is_seen_in_its_samples():
    at_s = [0.0, 0.1, 0.2, 4.2, 4.3]
    run = closed_loop(noisy, sample_rows=sample_rows([Sample(each, *[0] * 7) for each in at_s]))

    assert "stopped for 4 s" in findings(run)[0].text
    assert "at 200 ms" in findings(run)[0].details


def test_no_sample_is_taken_while_an_interrupted_run_ends_its_calls():
    """The last call was sent at 0.4 s, and ended 5 s later; a gap before it was the host's."""
    calls = [Made(0.1 * n, 0.1 * n + 0.05) for n in range(4)] + [Made(0.4, 5.4)]
    rows = sample_rows([Sample(each, *[0] * 7) for each in (0.0, 0.1, 0.2, 0.3, 0.4, 5.4)])
    interrupted = run_of(calls, sample_rows=rows, outcome="interrupted")
    resumed = run_of([*calls, Made(7.0, 7.1)], sample_rows=rows, outcome="interrupted")

    assert "clock" not in names(interrupted)
    assert "clock" in names(resumed)


def test_a_throughput_that_varies_is_too_noisy_to_tell():
    rng = random.Random(3)
    pace = [rng.choice([0.002, 0.03]) for _ in range(20)]

    assert "noise" in names(closed_loop(lambda number: pace[number // 50]))


def test_latency_counts_from_the_due_time_and_is_infinite_for_a_call_that_was_cut_off():
    """The last call was due first: records are in the order of the ends."""
    calls = [
        Made(0.1, 0.2, due_s=0.1),
        Made(0.2, 0.3, due_s=0.0),
        Made(0.4, 0.5, CREATE, DEADLINE_EXCEEDED, due_s=-0.1),
    ]
    taken_s = latencies_s(run_of(calls))

    assert [math.inf, 0.3, 0.1] == pytest.approx(taken_s)
    assert (0.3, math.inf) == pytest.approx([quantile(taken_s, p).value_s for p in (0.6, 0.7)])


SHARES = [0.5, 0.9, 0.95, 0.99, 0.999]


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
def test_the_ranks_hold_the_quantile_as_often_as_stated_for_every_number_of_calls(share):
    """The number of calls below a quantile is binomial, whatever the distribution of the latency.

    Its probabilities come from one row of Pascal's triangle after the other.
    """
    at_number = np.array([1.0])
    for count in range(1, 3001):
        at_number = np.convolve(at_number, [1 - share, share])
        if count >= needs(share):
            low, high = ranks(count, share)
            assert 0.93 <= at_number[low:high].sum() <= 0.97, count


@pytest.mark.parametrize(
    ("share", "fewest"), [(0.5, 15), (0.9, 29), (0.99, 299), (0.999, 2995), (0.1, 29)]
)
def test_too_few_calls_have_no_interval(share, fewest):
    assert fewest == needs(share)
    assert math.isnan(quantile(np.arange(fewest - 1.0), share).high_s)
    assert not math.isnan(quantile(np.arange(float(fewest)), share).high_s)


def test_calls_that_the_server_refused_are_not_in_the_quantiles():
    """A refusal takes a millisecond: many of them would make the p50 that of refusals."""
    calls = [Made(n, n + 0.5) for n in range(10)]
    refused = [Made(n, n + 0.001, status=RESOURCE_EXHAUSTED) for n in range(30)]

    assert [0.5] * 10 == pytest.approx(latencies_s(run_of([*calls, *refused])).tolist())
