"""Parts of a run: calls of one kind or interval; one run merged from several generators."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvstore.measure.audit import in_flight_between
from kvstore.measure.recorder import Cpu, Records, Sample
from kvstore.measure.run import Outcome, Run
from kvstore.protocol import BATCH, KINDS


def only(run: Run, operation: str) -> Run:
    """Return the run restricted to one kind of operation.

    `operation` is one of the run's kinds, such as "create". CPU time and samples remain those of
    the whole run. Raises `ValueError` for another kind, and for batches, which mix several kinds.
    """
    known = [kind for kind in run.kinds if kind != KINDS[BATCH]]
    if operation not in known:
        raise ValueError(f"operation must be one of {', '.join(known)}, got {operation!r}")
    records = run.records[run.records["kind"] == run.kinds.index(operation)]
    sent = int(records["operations"].sum())
    return dataclasses.replace(run, records=records, issued=len(records), operations_sent=sent)


class During(NamedTuple):
    """The figures of an interval of a run."""

    answered_per_s: float
    """Calls that ended in the interval with any status, per second."""
    residence_mean_s: float
    """R: mean residence time of these calls in seconds; NaN if there are none."""
    in_flight_mean: float
    """L: mean number of calls in flight during the interval."""


def during(run: Run, from_s: float, until_s: float) -> During:
    """Return the figures from `from_s` to `until_s`, both in seconds from the start of the run.

    Calls are in flight at both ends of the interval, so Little's law holds only approximately.
    Raises `ValueError` unless 0 <= from_s < until_s.
    """
    if not 0 <= from_s < until_s:
        raise ValueError(
            f"from_s must be 0 or more and until_s above it, got {from_s} and {until_s}"
        )
    records = run.records
    done = records[(records["done_s"] >= from_s) & (records["done_s"] < until_s)]
    took_s = done["done_s"] - done["sent_s"]
    (in_flight,) = in_flight_between(
        records["sent_s"], records["done_s"], np.array([from_s, until_s])
    )
    return During(
        len(done) / (until_s - from_s),
        float(np.mean(took_s)) if len(done) else float("nan"),
        float(in_flight),
    )


# Merge the runs that several generator processes recorded at the same time into one run.
#
# All runs must measure time on the same clock from the same start. Their calls then form one
# trace, for which Little's law holds as exactly as for each part.


def merge(runs: Sequence[Run]) -> Run:
    """Return the run of which these runs are the parts.

    Calls, counts, concurrency limits and CPU time of the clients are added up. All parts observed
    the same servers, so the largest value is used for CPU time and memory of the servers. The
    operations that the servers counted are left out, because each part sees those of all parts.
    The outcome is the worst outcome of a part. Connections are numbered anew. Raises `ValueError`
    without a run, or for runs of different strategies.
    """
    if len({run.strategy for run in runs}) != 1:
        raise ValueError(
            "the parts of a run must have the same strategy, got"
            f" {sorted({run.strategy for run in runs}) or 'no run'}"
        )
    first = runs[0]
    records = np.concatenate(_records(runs))
    records = records[np.argsort(records["done_s"], kind="stable")]
    return dataclasses.replace(
        first,
        in_flight=sum(run.in_flight for run in runs),
        server=dataclasses.replace(first.server, operations=None),
        started_at=min(run.started_at for run in runs),
        window_s=max(run.window_s for run in runs),
        issued=sum(run.issued for run in runs),
        operations_sent=sum(run.issued_operations for run in runs),
        outcome=min((run.outcome for run in runs), key=list(Outcome).index),
        records=records,
        sample_rows=_samples(runs),
        machine_cpu_s=float(np.max([run.machine_cpu_s for run in runs])),
        machine_stolen_s=float(np.max([run.machine_stolen_s for run in runs])),
        # 0 means unknown: the whole is known if all parts are.
        connections=all(run.connections for run in runs) * sum(run.connections for run in runs),
        connect_s=[seconds for run in runs for seconds in run.connect_s],
        client_cpu=Cpu(*np.sum([run.client_cpu for run in runs], axis=0).tolist()),
        server_cpu=max((run.server_cpu for run in runs), key=lambda cpu: cpu.total_s),
        unresponsive={
            address: max(run.unresponsive.get(address, 0.0) for run in runs)
            for each in runs
            for address in each.unresponsive
        },
        clock_step_s=max((run.clock_step_s for run in runs), key=abs),
    )


def merge_samples(samples: Sequence[Sample]) -> Sample:
    """Return one sample of all generators together, from one sample of each."""
    columns = zip(Sample._fields, zip(*samples, strict=True), strict=True)
    return Sample(*(max(each) if _is_common(name) else sum(each) for name, each in columns))


def _is_common(column: str) -> bool:
    """Whether every part observes the same value in this column, and not a share of its own."""
    return column == "elapsed_s" or column.startswith("server_")


def _records(runs: Sequence[Run]) -> list[Records]:
    """Return the records of each run; connections are numbered after those of earlier runs."""
    parts, before = [], 0
    for run in runs:
        records = run.records.copy()
        records["connection"] += before
        before = int(records["connection"].max(initial=before)) + 1
        parts.append(records)
    return parts


def _samples(runs: Sequence[Run]) -> Records:
    """Return samples of all parts: at the time of each sample, the latest sample of each part."""
    parts = [run.sample_rows for run in runs if len(run.sample_rows)]
    if not parts:
        return runs[0].sample_rows
    at_s = np.unique(np.concatenate([rows["elapsed_s"] for rows in parts]))
    held = []
    for rows in parts:
        latest = np.searchsorted(rows["elapsed_s"], at_s, side="right") - 1
        held.append(rows[np.maximum(latest, 0)])
    merged = held[0].copy()
    for name in merged.dtype.names or ():
        columns = np.stack([rows[name] for rows in held])
        merged[name] = columns.max(axis=0) if _is_common(name) else columns.sum(axis=0)
    merged["elapsed_s"] = at_s
    return merged
