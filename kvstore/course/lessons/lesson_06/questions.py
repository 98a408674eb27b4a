"""What lesson 06 and its further lessons ask."""

import math
from typing import Final

from kvstore.course import machine
from kvstore.course.questions import Answer
from kvstore.measure import Run
from kvstore.measure.cpu_cost import cpu_per_call_s, d_max_s, serial_s
from kvstore.model import Prediction, Station, bounds
from kvstore.numbers import seconds


def expected_gain(python: Run) -> Prediction:
    """Return the gain of a server that costs no CPU time, if the client's demand stays the same.

    With D from the run in Python, the client alone allows X = 1/D_client.
    """
    gained = d_max_s(python) / serial_s(python).client_s
    return Prediction(gained, "times", "D_max ÷ D_client", "the client's CPU")


def disk_s(run: Run) -> float:
    """Return the read delay of the run's server, in seconds."""
    return float(run.server.settings.read_delay_s)


def stations(probe: Run) -> list[Station]:
    """Return the processors with the CPU time per call of a run, and the disk of its server."""
    return [*machine.cpu_stations(probe), Station("disk", disk_s(probe), math.inf)]


def gain(one: Run, other: Run) -> float:
    """Return the throughput of the second run over that of the first."""
    return other.answered_per_s / one.answered_per_s


def behind_cap(alone: Run, run: Run) -> Prediction:
    """Return min(N, c·m)/D for a server with a cap of m streams on each of c connections.

    D is the disk, and what the fastest call of a run with one in flight took beyond its disk.
    """
    streams = run.connections * (run.server.settings.max_streams or 0)
    beyond_disk_s = max(0.0, alone.latency_s(0.0) - disk_s(alone))
    at_once, demand_s = min(run.in_flight, streams), disk_s(run) + beyond_disk_s
    reason = (
        f"{at_once} of {run.in_flight} calls are in the server at once, each for "
        f"{seconds(demand_s)}"
    )
    return Prediction(at_once / demand_s, "calls/s", reason, "streams")


def second_client(one: Run, two: Run) -> Prediction:
    """Return the gain of a second client process, from the CPU time per call of a run with one.

    Two processes compute side by side; the server stays one process, and all share the cores.
    """
    cpu, serial, cores = cpu_per_call_s(one), serial_s(one), int(one.host["cores"])
    pace_with_two_s = max(serial.client_s / 2, serial.server_s, cpu.together_s / cores)
    return Prediction(
        d_max_s(one) / pace_with_two_s, "times", "D_max of one client ÷ D_max of two", "CPU"
    )


ANSWERS: Final = {
    "06.at_once": Answer(
        lambda calls: calls,
        lambda calls: Prediction(100.0, "calls", "one stream on each of 100 connections"),
    ),
    "06.curve": Answer(
        lambda few, sweep: {r.in_flight: r.answered_per_s for r in (*sweep, few)},
        lambda few, _: {
            n: bounds.closed_loop(n, stations(few)).value for n in (1, 8, 16, 32, 64, 128, 256)
        },
    ),
    "06.second_client": Answer(gain, second_client),
    "06.capped": Answer(lambda alone, run: run.throughput_per_s, behind_cap),
    "06.go_with_disk": Answer(
        gain, lambda python, go: Prediction(1.0, "times", "N/S in both", "the disk")
    ),
    "06.go": Answer(gain, lambda python, go: expected_gain(python)),
}
