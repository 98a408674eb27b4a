"""Runs with known facts, made without a server."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd

from kvstore.measure import Run, Sample, ServerReport
from kvstore.measure.recorder import Recorder, sample_rows
from kvstore.protocol import KINDS, STATUSES, UNKNOWN_STATIONS, StationTimes


def run_of(
    calls, *, strategy="blocking", in_flight=1, window_s=None, samples=(), outcome="complete"
):
    """A run of calls given as (sent_s, done_s, operation[, status[, stations]])."""
    recorder = Recorder()
    for sent_s, done_s, operation, *more in sorted(calls, key=lambda call: call[1]):
        status, stations = (*more, *("OK", UNKNOWN_STATIONS)[len(more) :])
        recorder.record(
            math.nan,
            sent_s,
            done_s,
            KINDS.index(operation),
            STATUSES.index(status),
            64,
            64,
            stations,
        )
    ends = [call[1] for call in calls]
    return Run(
        strategy=strategy,
        in_flight=in_flight,
        settings={},
        server=ServerReport(),
        host={},
        started_at="2026-01-01T12:00:00+00:00",
        window_s=window_s or max(ends, default=1.0),
        issued=len(calls),
        outcome=outcome,
        records=recorder.array(),
        sample_rows=sample_rows(samples),
    )


def paced(count=40, *, per_s=20.0, deadline_s=0.1, strategy="futures"):
    """Reads that are due one after the other; each third is sent late and answered late."""
    recorder = Recorder()
    for number in range(count):
        due_s = number / per_s
        late_s = 0.09 * (number % 3 == 2)
        recorder.record(due_s, due_s + late_s, due_s + late_s + 0.02, 2, 0, 64, 64)
    return dataclasses.replace(
        run_of([], strategy=strategy),
        settings={"deadline_s": deadline_s, "duration_s": count / per_s},
        server=ServerReport.of({"operations": {"retrieve/OK": count}}),
        window_s=(count - 1) / per_s + 0.2,
        issued=count,
        records=recorder.array(),
    )


def staircase(count=20, *, in_flight=1, strategy="blocking", stations=False, back_end=False):
    """`in_flight` callers, each with one call after the other: reads 10 ms, writes 50 ms."""
    kinds = itertools.cycle(["create", "retrieve", "update", "delete"])
    free_at_s = [0.0] * in_flight
    calls = []
    for _ in range(count):
        caller = free_at_s.index(min(free_at_s))
        kind = next(kinds)
        disk_s = 0.010 if kind == "retrieve" else 0.050
        told = StationTimes(0.0005, 0.001 * in_flight, disk_s, 0.0005)
        sent_s, whole_s = free_at_s[caller], sum(told) + 0.001
        free_at_s[caller] = sent_s + whole_s
        calls.append((sent_s, sent_s + whole_s, kind, "OK", told if stations else UNKNOWN_STATIONS))
    samples = [
        Sample(at_s, in_flight, 0, 0, 1e8 + 1e7 * at_s, 8e7 + 5e6 * at_s, 5, 130)
        for at_s in np.linspace(0.0, max(free_at_s), 12)
    ]
    run = run_of(calls, strategy=strategy, in_flight=in_flight, samples=samples)
    if back_end:  # a server in front of another one
        run = dataclasses.replace(
            run, server=ServerReport.of({"settings": {"back_end": "127.0.0.1:9"}})
        )
    return run


def closed_loop(in_flight, per_s, rounds=4, *, operations=1):
    """`in_flight` callers that send one message of reads after the other, `per_s` reads a second.

    Each message holds as many `operations`, and all of them are answered OK.
    """
    residence_s = in_flight * operations / per_s
    calls = [
        (round_ * residence_s, (round_ + 1) * residence_s, "retrieve")
        for round_ in range(rounds)
        for _ in range(in_flight)
    ]
    run = run_of(calls, strategy="bounded", in_flight=in_flight)
    records = run.records.copy()
    records["operations"] = records["ok_operations"] = operations
    return dataclasses.replace(run, records=records)


def climbed(users=8, *, over_s=1.0, hold_s=0.5, wait_s=0.05):
    """`users` who join one by one, each with one call after the other, all of the same length."""
    joins = [over_s * number / users for number in range(users)]
    ends_s = over_s + hold_s
    calls = [
        (at_s, at_s + wait_s, "retrieve")
        for join_s in joins
        for at_s in np.arange(join_s, ends_s, wait_s)
    ]
    samples = [
        Sample(at_s, 0, 0, 0, 1e8, 8e7, 5, 10 + sum(join_s <= at_s for join_s in joins))
        for at_s in np.linspace(0.0, ends_s, 12)
    ]
    run = run_of(calls, strategy="tasks", in_flight=users, samples=samples)
    return dataclasses.replace(run, settings={"joins": joins, "duration_s": ends_s})


def open_run(times, status=0, **settings):
    """Calls given as (due_s, sent_s, done_s), answered by a server with these settings."""
    recorder = Recorder()
    for due_s, sent_s, done_s in sorted(times, key=lambda each: each[2]):
        recorder.record(due_s, sent_s, done_s, 2, status, 64, 64)
    made = {"threads": 1, "disk_times": "fixed", "disk_seed": 1, "read_delay_s": 0.02, **settings}
    return dataclasses.replace(
        run_of([], strategy="futures"),
        server=ServerReport.of({"settings": made}),
        issued=len(times),
        records=recorder.array(),
    )


def overtaken():
    """An update, and three reads of which two overtake it."""
    times = [(0.000, 0.050), (0.001, 0.011), (0.002, 0.012), (0.011, 0.060)]
    kinds = ["update", "retrieve", "retrieve", "retrieve"]
    return run_of([(*at, kind) for at, kind in zip(times, kinds, strict=True)], in_flight=4)


def filled(calls=200):
    """Calls sent at 100/s, of which none is answered; memory grows, and is freed at the end."""
    end_s = calls / 100
    sent_s = np.linspace(0.0, end_s, calls)
    at_s = np.linspace(0.0, end_s, 50)
    samples = pd.DataFrame({"elapsed_s": at_s, "in_flight": 100 * at_s, "answered": 0.0})
    after = {"elapsed_s": end_s + 1, "in_flight": 0.0, "answered": calls}
    for side, base, each in (("client", 100e6, 50_000), ("server", 90e6, 30_000)):
        samples[f"{side}_rss_bytes"] = base + each * samples["in_flight"]
        after[f"{side}_rss_bytes"] = base
    samples = pd.concat([samples, pd.DataFrame([after])], ignore_index=True)
    made = run_of([(sent, end_s + 1, "create") for sent in sent_s])
    return dataclasses.replace(made, sample_rows=samples.to_records(index=False))
