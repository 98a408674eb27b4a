"""What lesson 15 asks."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from kvstore.course.questions import Answer
from kvstore.model import Prediction, Station, bounds

EXAMPLE = 1
"""The practice number of the service that the lesson solves."""
STRESS: Final[Mapping[str, float]] = {
    "disk": 2.0,
    "commit log": 2.0,
    "back end": 5.0,
    "hot key": 2.5,
    "message size": 4.0,
    "stream cap": 2.0,
    "retries": 2.0,
}
"""How many times as much work each call of the lesson's loads is for a station."""
MOST_IN_FLIGHT: Final = 26
COMPRESSED: Final = 1 / 8
"""Share of the bytes of a value that are left, and so of its time at the message size."""


class _Measured(Protocol):
    """What a claim needs of a measurement."""

    throughput_per_s: float
    mean_s: float
    processor_busy: float


class _Scored(Protocol):
    """What a question needs of a score."""

    record: dict[str, Any]
    met: bool


def started(alone: _Measured, full: _Measured) -> Prediction:
    """N/D, if no station bound."""
    return bounds.closed_loop(MOST_IN_FLIGHT, [Station("a call alone", alone.mean_s, 1e9)])


def improved(alone: _Measured, message: _Measured, score: _Scored) -> Prediction:
    """N/D: with wide stations, only the calls in flight limit the throughput.

    Compressed values shorten D: by how much, their stress has shown.
    """
    shorter_s = (1 - COMPRESSED) / lets_through("message size", message)
    return bounds.closed_loop(
        score.record["final"]["most_in_flight"],
        [Station("a call alone", alone.mean_s - shorter_s, 1e9)],
    )


def result_per_s(score: _Scored) -> float:
    """The throughput of the run that was scored, before its fault."""
    return float(score.record["final"]["result"]["steady_per_s"])


ANSWERS: Final = {
    "15.start": Answer(lambda alone, full: full.throughput_per_s, started),
    "15.result": Answer(lambda alone, message, score: result_per_s(score), improved),
}


def lets_through(name: str, measured: _Measured) -> float:
    """Calls per second of the whole traffic that a station lets through, from its stress."""
    return STRESS[name] * measured.throughput_per_s


def close_stations(measured: Mapping[str, _Measured], full: _Measured) -> list[str]:
    """The stations that let at most 1.35 times the throughput of the traffic through."""
    limit = 1.35 * full.throughput_per_s
    return [name for name, each in measured.items() if lets_through(name, each) < limit]
