"""Lesson 06: the rate of a server that caps the streams of each connection."""

from typing import Any

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, near, not_yet, passed


def rate_per_s(
    in_flight: int, connections: int, max_streams: int, disk_s: float, cpu_s: float
) -> float:
    """Calls at once: as many as are sent, and as the connections let in; 1/d at most."""
    at_the_server = min(in_flight, connections * max_streams)
    return min(at_the_server / (disk_s + cpu_s), 1 / cpu_s)


def _judge(answer: Any) -> Verdict:
    found = float(answer(20, 1, 4, 0.0198, 0.0002))
    if not near(found, 200.0):
        return not_yet(_why_not_200(found))
    found = float(answer(20, 2, 4, 0.0198, 0.0002))
    if not near(found, 400.0):
        return not_yet(
            f"a second connection, 4 streams each, and you promise {found:.4g} calls/s: the cap "
            "holds for each connection, so a second one brings 4 more."
        )
    found = float(answer(2, 4, 4, 0.0198, 0.0002))
    if not near(found, 100.0):
        return not_yet(
            f"2 calls in flight over 4 connections of 4 streams gave {found:.4g} calls/s: there is "
            "room for 16, but only 2 are sent."
        )
    found = float(answer(1000, 100, 10, 0.0198, 0.0002))
    if not near(found, 5000.0):
        return not_yet(
            f"1,000 calls on 1,000 streams gave {found:.4g} calls/s, but each needs 0.2 ms of the "
            "server's processor: 1/d is the end of it."
        )
    return passed("X = min(min(N, c·m)/D, 1/d): the callers, the streams, or the processor.")


def _why_not_200(found: float) -> str:
    if near(found, 1000.0):
        return "20 calls are in flight, but 16 of them wait in the client for one of 4 streams."
    if near(found, 4 / 0.0198) or near(found, 4 / 0.0002):
        return (
            f"{found:.5g} calls/s: a stream is taken for the disk and for the processor's time, "
            "one after the other."
        )
    if near(found, 50.0):
        return "one call at a time: but the server lets 4 of the connection's calls in at once."
    return (
        f"20 in flight on one connection of 4 streams, 19.8 ms of disk and 0.2 ms of processor "
        f"gave {found:.4g} calls/s: how many calls are at the server at any moment?"
    )


BEHIND_A_CAP = Exercise(
    id="06.behind_a_cap",
    title="Behind a cap",
    statement=(
        "Write `rate_per_s(in_flight, connections, max_streams, disk_s, cpu_s)`: calls per second "
        "of a server that waits `disk_s` and computes `cpu_s` for each call, in one process, and "
        "lets `max_streams` calls of each connection in at once. What is over waits in the client."
    ),
    hints=(
        "How many calls are at the server at once? Two things limit that.",
        "`min(in_flight, connections * max_streams)`; each stays for disk and processor.",
        "And one process computes for one call at a time: never more than `1 / cpu_s`.",
    ),
    reference=rate_per_s,
    wrong=(
        WrongAnswer(lambda n, c, m, s, d: min(n / (s + d), 1 / d), "wait in the client"),
        WrongAnswer(lambda n, c, m, s, d: min(min(n, c * m) / s, 1 / d), "one after the other"),
        WrongAnswer(lambda n, c, m, s, d: min(min(n, m) / (s + d), 1 / d), "brings 4 more"),
        WrongAnswer(lambda n, c, m, s, d: min(c * m / (s + d), 1 / d), "only 2 are sent"),
        WrongAnswer(lambda n, c, m, s, d: min(n, c * m) / (s + d), "the end of it"),
        WrongAnswer(lambda n, c, m, s, d: 1 / (s + d), "one call at a time"),
    ),
    judge=_judge,
)
