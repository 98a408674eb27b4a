"""What lesson 06 asks: predictions, quiz, and the conditions of its claims."""

import math
from collections.abc import Sequence

from kvstore.course import machine
from kvstore.course.questions import lesson_06_further
from kvstore.course.questions.base import Option, PredictionQuestion, QuizQuestion
from kvstore.measure import Run, verdict
from kvstore.model import Prediction, Station, bounds


def disk_s(run: Run) -> float:
    """Return the read delay of the run's server, in seconds."""
    return float(run.server["settings"]["read_delay_s"])


def stations(probe: Run) -> list[Station]:
    """Return the processors with the CPU time per call of a run, and the disk of its server."""
    return [*machine.cpu_stations(probe), Station("disk", disk_s(probe), math.inf)]


def ceiling(probe: Run) -> Prediction:
    """Return 1/D_max: the bound for very many calls in flight, from the CPU time of a run."""
    return bounds.closed_loop(10**6, stations(probe))


def fastest(runs: Sequence[Run]) -> float:
    """Return the highest throughput of the runs, in calls/s."""
    return max(run.answered_per_s for run in runs)


def layout_gain(one: Run, ten: Run) -> float:
    """Return the throughput of the second run over that of the first."""
    return ten.answered_per_s / one.answered_per_s


def behind_cap(run: Run, beyond_disk_s: float = 0.0) -> Prediction:
    """Return min(N, c·m)/D for a server with a cap of m streams on each of c connections.

    D is the disk, and `beyond_disk_s` for the rest of a call that never waits.
    """
    streams = run.connections * int(run.server["settings"]["max_streams"])
    at_once, demand_s = min(run.in_flight, streams), disk_s(run) + beyond_disk_s
    reason = (
        f"{at_once} of {run.in_flight} calls are in the server at once, each for "
        f"{1e3 * demand_s:.3g} ms"
    )
    return Prediction(at_once / demand_s, "calls/s", reason, "streams")


def least_beyond_disk_s(alone: Run) -> float:
    """Return what the fastest call of a run with one in flight took beyond its disk, in seconds."""
    return max(0.0, alone.latency_s(0.0) - disk_s(alone))


PREDICTIONS = (
    PredictionQuestion(
        "06.layout",
        "10 connections with one call at a time, against 1 connection with 10 at a time: how "
        "many times the throughput?",
        unit="times",
        measured=layout_gain,
        model=lambda one, ten: Prediction(1.0, "times", "N / D for both: the same N and D"),
    ),
    PredictionQuestion(
        "06.ceiling",
        "More and more calls in flight: how many calls/s at most?",
        measured=lambda probe, sweep: fastest(sweep),
        model=lambda probe, sweep: ceiling(probe),
        main=True,
        binds="cpu",
    ),
    PredictionQuestion(
        "06.capped",
        "20 calls in flight on one connection, a cap of 4 streams, 20 ms of disk: how many "
        "calls/s?",
        measured=lambda alone, run: run,
        model=lambda alone, run: behind_cap(run, least_beyond_disk_s(alone)),
        main=True,
    ),
    *lesson_06_further.PREDICTIONS,
)

QUIZ = (
    QuizQuestion(
        "06.refused",
        "A client opens 100 connections. On each of them it sends 10 requests at once, before it "
        "has heard the server's settings. In one run 200 requests fail. Which cap of streams "
        "would explain that?",
        (
            Option(
                "2",
                why="Then 8 of the 10 first requests of each connection are refused: 800 in all.",
            ),
            Option(
                "8",
                right=True,
                why="100 · (10 - 8) = 200. It explains the number; the log does not say it.",
            ),
            Option(
                "200",
                why="The cap holds for one connection. 10 requests are below a cap of 200.",
            ),
        ),
    ),
    QuizQuestion(
        "06.generator",
        "A run reaches 5,000 calls/s. The client used 0.98 of a core, the server 0.40. Which part "
        "limited the throughput?",
        (
            Option("The server.", why="It used 0.40 of a core. It could have answered more calls."),
            Option(
                "The client.",
                right=True,
                why="A Python process has about one core. The client had no CPU time left.",
            ),
            Option(
                "The number of connections.",
                why="Connections change N at most. The client's core is full at any layout.",
            ),
        ),
    ),
    QuizQuestion(
        "06.right_of_the_knee",
        "You are far beyond N*, and double the calls in flight. What doubles?",
        (
            Option("The throughput.", why="It is 1/D_max, and D_max did not change."),
            Option(
                "The residence time of a call.",
                right=True,
                why="X stays the same, and R = N/X by Little's law.",
            ),
            Option(
                "The CPU time of a call.",
                why="A waiting call computes nothing. The CPU time hardly changes.",
            ),
        ),
    ),
)


# Conditions of the claims ------------------------------------------------------------------------


def connections_as_set(*runs: Run) -> bool:
    """Whether the server counted as many connections as each run was set to open."""
    return all(run.connections == run.settings["connections"] for run in runs)


def same_n_same_x(one: Run, ten: Run) -> bool:
    """Whether two runs with the same N differ by less than 1.5 times."""
    return one.in_flight == ten.in_flight and 1 / 1.5 < layout_gain(one, ten) < 1.5


def has_bent(sweep: Sequence[Run]) -> bool:
    """Whether the run with the most calls in flight reaches less than 0.8 of N/disk."""
    most = max(sweep, key=lambda run: run.in_flight)
    return most.answered_per_s * disk_s(most) < 0.8 * most.in_flight


def none_above(sweep: Sequence[Run]) -> bool:
    """Whether no run exceeds N/disk by more than a tenth, as timers may be early."""
    return all(run.answered_per_s * disk_s(run) < 1.1 * run.in_flight for run in sweep)


def works_harder(few: Run, many: Run) -> bool:
    """Whether the client used more than twice the CPU time per second of the first run."""
    return verdict(many).client_cores > 2 * verdict(few).client_cores


def within_cap(run: Run) -> bool:
    """Whether the throughput is at most 1.1 times what the streams allow."""
    return run.answered_per_s < 1.1 * behind_cap(run).value


def second_connection_helps(one: Run, two: Run) -> bool:
    """Whether a second connection, with the same N, raises the throughput by more than 1.3."""
    return one.in_flight == two.in_flight and layout_gain(one, two) > 1.3
