"""Merge the runs that several generator processes recorded at the same time into one run.

All runs must measure time on the same clock from the same start. Their calls then form one trace,
for which Little's law holds as exactly as for each part.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvstore.measure.outcome import Outcome
from kvstore.measure.run import Run
from kvstore.measure.sampler import Cpu, Sample

if TYPE_CHECKING:  # see run.py
    import pandas as pd


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
    records = np.concatenate([*_records(runs)])
    records = records[np.argsort(records["done_s"], kind="stable")]
    return dataclasses.replace(
        first,
        in_flight=sum(run.in_flight for run in runs),
        server={**first.server, "operations": None},
        started_at=min(run.started_at for run in runs),
        window_s=max(run.window_s for run in runs),
        issued=sum(run.issued for run in runs),
        operations_sent=sum(run.issued_operations for run in runs),
        outcome=min((run.outcome for run in runs), key=list(Outcome).index),
        records=records,
        samples=_samples(runs),
        machine_cpu_s=float(np.max([run.machine_cpu_s for run in runs])),
        machine_stolen_s=float(np.max([run.machine_stolen_s for run in runs])),
        connections=_sum_if_all_known([run.connections for run in runs]),
        connect_s=[seconds for run in runs for seconds in run.connect_s],
        client_cpu=Cpu(*np.sum([run.client_cpu for run in runs], axis=0).tolist()),
        server_cpu=max((run.server_cpu for run in runs), key=lambda cpu: cpu.total_s),
        unresponsive=_unresponsive(runs),
        clock_step_s=max((run.clock_step_s for run in runs), key=abs),
    )


def merge_samples(samples: Sequence[Sample]) -> Sample:
    """Return one sample of all generators together, from one sample of each."""
    columns = zip(Sample._fields, zip(*samples, strict=True), strict=True)
    return Sample(*(max(each) if _is_common(name) else sum(each) for name, each in columns))


def _is_common(column: str) -> bool:
    """Whether every part observes the same value in this column, and not a share of its own."""
    return column == "elapsed_s" or column.startswith("server_")


def _unresponsive(runs: Sequence[Run]) -> dict[str, float]:
    """Return the servers that stopped answering a part, with their last reply to any part."""
    last_s: dict[str, float] = {}
    for run in runs:
        for address, at_s in run.unresponsive.items():
            last_s[address] = max(at_s, last_s.get(address, 0.0))
    return last_s


def _sum_if_all_known(counts: Sequence[int]) -> int:
    """Return the sum of the counts; 0, which means unknown, if one of them is unknown."""
    return sum(counts) if all(counts) else 0


def _records(runs: Sequence[Run]) -> "itertools.chain[np.ndarray[tuple[int], np.dtype[np.void]]]":
    """Return the records of each run; connections are numbered after those of earlier runs."""
    found, before = [], 0
    for run in runs:
        records = run.records.copy()
        records["connection"] += before
        before = int(records["connection"].max(initial=before)) + 1
        found.append(records)
    return itertools.chain(found)


def _samples(runs: Sequence[Run]) -> "pd.DataFrame":
    """Return samples of all parts: at the time of each sample, the latest sample of each part."""
    frames = [run.samples for run in runs if len(run.samples)]
    if not frames:
        return runs[0].samples
    at_s = np.unique(np.concatenate([frame["elapsed_s"] for frame in frames]))
    held = []
    for frame in frames:
        latest = np.searchsorted(frame["elapsed_s"], at_s, side="right") - 1
        held.append(frame.iloc[np.maximum(latest, 0)].reset_index(drop=True))
    merged = held[0].copy()
    for name in merged.columns:
        columns = np.stack([frame[name] for frame in held])
        merged[name] = columns.max(axis=0) if _is_common(name) else columns.sum(axis=0)
    merged["elapsed_s"] = at_s
    return merged
