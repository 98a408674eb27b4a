"""What the further lesson 10 on generators, servers and cores asks, and what its claims need."""

from collections.abc import Mapping

import pandas as pd

from kvstore.course.questions import PredictionQuestion
from kvstore.course.views.style import rounded
from kvstore.measure import Run, cores
from kvstore.measure.cpu_cost import price_s, serial_s
from kvstore.model import Prediction, scaling

Processes = tuple[int, int]
"""Generators and servers."""


def costs(alone: Run) -> dict[str, float]:
    """Return D and D' of client and server in seconds, from a run with one process each."""
    whole, serial = price_s(alone), serial_s(alone)
    return {
        "client_s": whole.client_s,
        "server_s": whole.server_s,
        "client_serial_s": serial.client_s,
        "server_serial_s": serial.server_s,
    }


def bound(alone: Run, processes: Processes) -> Prediction:
    """Return the bound on X for these processes on the cores of this machine."""
    generators, servers = processes
    return scaling.throughput(generators=generators, servers=servers, cores=cores(), **costs(alone))


def machines_table(alone: Run) -> pd.DataFrame:
    """Return what machines of up to 64 cores need and reach, with this machine's CPU times."""
    rows = [
        {
            "cores": each.cores,
            "generators, p": each.generators,
            "servers, s": each.servers,
            "bound (calls/s)": round(each.predicted.value, -1),
            "with p = s = 1 (calls/s)": round(
                scaling.throughput(generators=1, servers=1, cores=each.cores, **costs(alone)).value,
                -1,
            ),
        }
        for each in scaling.by_cores(scaling.MACHINES, **costs(alone))
    ]
    return rounded(pd.DataFrame(rows).set_index("cores").astype(int))


PREDICTIONS = (
    PredictionQuestion(
        "10.two_and_two",
        "Two generators and two servers on this machine: how many calls per second?",
        measured=lambda alone, run: run.answered_per_s,
        model=lambda alone, run: bound(alone, (2, 2)),
        binds="cpu",
    ),
)


def within_bounds(runs: Mapping[Processes, Run]) -> bool:
    """Whether no run is above its bound by more than 40 %: a cost is measured once, and varies."""
    return all(
        run.answered_per_s < 1.4 * bound(runs[1, 1], processes).value
        for processes, run in runs.items()
    )


def none_lost(runs: Mapping[Processes, Run]) -> bool:
    """Whether all calls were answered OK, and the servers counted as many as were recorded."""
    return all(
        run.operations_ok == run.issued == sum(run.server["operations"].values())
        for run in runs.values()
    )
