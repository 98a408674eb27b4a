"""One run out of several that were made together, each by a process of its own.

The runs have to count their time from the same moment by the same clock. Then their calls can
be laid into one trace, and Little's law has to hold on it as exactly as on each.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvstore.measure.run import Cpu, Run
from kvstore.measure.sampler import Sample

if TYPE_CHECKING:  # see run.py
    import pandas as pd

OUTCOMES = ("server gone", "failed", "memory ceiling", "interrupted", "complete")
"""The outcome of the whole is the first of these that any part has."""


def merge(runs: Sequence[Run]) -> Run:
    """The run that these are parts of.

    Calls, counts, limits in flight and the clients' processor time add up. All parts looked at
    the same servers, so of the servers' processor time and memory the largest is taken; what
    the servers counted belongs to no single part and is left out. Connections get numbers of
    their own. Raises `ValueError` for no run, or for runs of different strategies.
    """
    if len({run.strategy for run in runs}) != 1:
        raise ValueError(
            "the parts of one run have one strategy, got"
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
        outcome=min((run.outcome for run in runs), key=OUTCOMES.index),
        records=records,
        samples=_samples(runs),
        machine_cpu_s=float(np.max([run.machine_cpu_s for run in runs])),
        machine_stolen_s=float(np.max([run.machine_stolen_s for run in runs])),
        connections=_sum_if_all_known([run.connections for run in runs]),
        connect_s=[seconds for run in runs for seconds in run.connect_s],
        client_cpu=Cpu(*np.sum([run.client_cpu for run in runs], axis=0).tolist()),
        server_cpu=max((run.server_cpu for run in runs), key=lambda cpu: cpu.total_s),
    )


def merge_samples(samples: Sequence[Sample]) -> Sample:
    """What the generators looked like together, from one sample of each."""
    columns = zip(Sample._fields, zip(*samples, strict=True), strict=True)
    return Sample(*(max(each) if _is_common(name) else sum(each) for name, each in columns))


def _is_common(column: str) -> bool:
    """Whether every part sees the same thing there, and not its own share of it."""
    return column == "elapsed_s" or column.startswith("server_")


def _sum_if_all_known(counts: Sequence[int]) -> int:
    """Their sum; 0, which stands for unknown, as soon as one of them is."""
    return sum(counts) if all(counts) else 0


def _records(runs: Sequence[Run]) -> "itertools.chain[np.ndarray[tuple[int], np.dtype[np.void]]]":
    """The records of each run, its connections numbered after those of the runs before it."""
    found, before = [], 0
    for run in runs:
        records = run.records.copy()
        records["connection"] += before
        before = int(records["connection"].max(initial=before)) + 1
        found.append(records)
    return itertools.chain(found)


def _samples(runs: Sequence[Run]) -> "pd.DataFrame":
    """The samples of all parts: each part's latest at every time that any was taken."""
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
