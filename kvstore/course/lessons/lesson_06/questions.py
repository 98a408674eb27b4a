"""What lesson 06 and its further lessons ask."""

import math

from kvstore.course import machine
from kvstore.course.questions import (
    Curve,
    Option,
    PredictionQuestion,
    QuizQuestion,
    number_question,
)
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


PREDICTIONS = (
    PredictionQuestion(
        "06.at_once",
        "100 connections, ten calls asked for on each: how many calls has the server at once?",
        unit="calls",
        measured=lambda calls: calls,
        model=lambda calls: Prediction(100.0, "calls", "one stream on each of 100 connections"),
        main=True,
    ),
    Curve(
        "06.curve",
        "More and more calls in flight: how many calls per second for each number?",
        over="calls in flight, N",
        xs=(1, 16, 32, 64, 128, 192, 256),
        most=8_000,
        measured=lambda few, sweep: {r.in_flight: r.answered_per_s for r in (*sweep, few)},
        model=lambda few, _: {
            n: bounds.closed_loop(n, stations(few)).value for n in (1, 8, 16, 32, 64, 128, 256)
        },
    ),
    PredictionQuestion(
        "06.second_client",
        "The slow client in two processes: how many times the throughput of one?",
        unit="times",
        measured=gain,
        model=second_client,
        main=True,
    ),
    PredictionQuestion(
        "06.capped",
        "20 calls in flight on one connection, a cap of 4 streams, 20 ms of disk: how many "
        "calls/s?",
        measured=lambda alone, run: run,
        model=behind_cap,
        main=True,
    ),
    # further lessons
    PredictionQuestion(
        "06.go_with_disk",
        "A disk of 20 ms, 50 calls in flight: how many times the throughput with the server in Go?",
        unit="times",
        measured=gain,
        model=lambda python, go: Prediction(1.0, "times", "N/S in both", "the disk"),
        main=True,
    ),
    PredictionQuestion(
        "06.go",
        "No disk: how many times the throughput with the server in Go?",
        unit="times",
        measured=gain,
        model=lambda python, go: expected_gain(python),
    ),
)

QUIZ = (
    number_question(
        "06.refused",
        "A client opens 100 connections. On each of them it sends 10 requests at once, before it "
        "has heard the server's settings. In one run {failed} requests fail. Which cap of streams "
        "would explain that?",
        "streams",
        (
            lambda failed: 10 - failed / 100,
            "Each connection was refused 10 - cap of its first requests.",
        ),
        (
            lambda failed: failed / 100,
            "So many of the first 10 were refused. The cap is the rest.",
        ),
        (
            lambda failed: failed,
            "The cap holds for one connection, and 10 requests came there.",
        ),
        failed=(200, 300, 700, 800),
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
                "The CPU time that a call takes in the server.",
                why="A waiting call computes nothing. The CPU time hardly changes.",
            ),
        ),
    ),
)
