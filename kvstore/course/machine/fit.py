"""Lesson by lesson: what it needs, what this machine has, and up to which size it goes."""

import math

import pandas as pd

from kvstore.course.landing import LESSONS
from kvstore.course.machine.facts import cpu_stations
from kvstore.course.machine.noise import Noise
from kvstore.course.rendering import TIMES
from kvstore.measure import Run
from kvstore.model import Station, bounds

DISK_S = 0.040
"""Mean disk time of lessons 01 to 03: reads of 10 ms and writes of 50 ms, a quarter reads."""
POOL_DISK_S = 0.020
"""Disk time of the reads that lesson 04 sends through pools of threads."""
CALLERS = 100
CEILING_BYTES = 512e6
"""Most memory that lesson 02 lets a process take."""
USERS, BACK_END_S = 250, 0.250
"""Users of lesson 07, and what its back end takes for each of their calls."""
FLOOD, FLOOD_BYTES = 10_000, 52 * 1024
"""Calls of a turn in lesson 08, and what one of them holds on both sides while it waits."""
SERVERS, SERVER_BYTES = 8, 80e6
"""Server processes of lesson 09, and the memory that each of them takes at most."""
DESIGNED_PER_S = 600
"""Calls a second that designs of lesson 10 make, where a disk sets their pace."""
ROOM = 0.8
"""A processor that is to be busier than this makes calls wait for it."""
YES, TIGHT, NO = "✔ it can", "◐ just about", "✘ smaller only"


def lessons(
    *, round_trip: Run, crud: Run, pipelined: Run, noise: Noise, free_bytes: float
) -> pd.DataFrame:
    """One row for each lesson, computed from runs made here without a disk.

    `round_trip` has one small call in flight, `crud` a hundred of the full size, `pipelined` a
    window of them on a stream.
    """
    trip_s = round_trip.mean_residence_s
    rows = [
        ("00", "repeatable runs", *_repeatable(noise)),
        ("01", "a round trip far shorter than the disk", *_short(trip_s)),
        ("02", "memory: twice the ceiling", *_memory(free_bytes)),
        ("03", "CPU for 100 in flight", *_processor(crud, trip_s)),
        ("04", "a round trip far shorter than its disk", *_short(trip_s, POOL_DISK_S)),
        ("05", "a round trip far longer than one message's CPU", *_window(pipelined, trip_s)),
        ("06", "a core each for client and server", *_core_each(round_trip)),
        ("07", "CPU for 250 users before a slow back end", *_users(round_trip)),
        ("08", "memory for 10,000 calls in flight", *_flood(free_bytes)),
        ("09", f"memory for {SERVERS} servers", *_servers(free_bytes)),
        ("10", "CPU for the designs it asks for", *_designed(round_trip)),
    ]
    columns = ["lesson", "it needs", "measured here", "this machine", "up to"]
    table = pd.DataFrame([(LESSONS[number], *row) for number, *row in rows], columns=columns)
    return table.set_index("lesson")


def most_in_flight(run: Run, residence_s: float = DISK_S, room: float = ROOM) -> int:
    """Calls in flight until a processor is `room` busy, at the price per call of this run."""
    stations = [Station("disk", residence_s, math.inf), *cpu_stations(run)]
    return max(1, math.floor(room * bounds.knee(stations)))


def _repeatable(noise: Noise) -> tuple[str, str, str]:
    verdict = {"quiet": YES, "usable": YES, "noisy": TIGHT}[noise.verdict]
    return (
        f"identical runs differ by {100 * noise.spread:.0f} %",
        verdict,
        f"single runs show factors above {noise.holds_from:.2g}",
    )


def _short(trip_s: float, disk_s: float = DISK_S) -> tuple[str, str, str]:
    share = trip_s / disk_s
    return (
        f"{1e3 * trip_s:.2g} ms beside {1e3 * disk_s:.0f} ms of disk: {100 * share:.1f} %",
        YES if share < 0.05 else TIGHT if share < 0.25 else NO,
        f"{1 / trip_s:,.0f} calls/s one at a time",
    )


def _memory(free_bytes: float) -> tuple[str, str, str]:
    ceiling = min(CEILING_BYTES, free_bytes / 2)
    return (
        f"{free_bytes / 1e6:,.0f} MB free for 2 {TIMES} {CEILING_BYTES / 1e6:.0f} MB",
        YES if ceiling >= CEILING_BYTES else NO,
        f"a ceiling of {ceiling / 1e6:,.0f} MB",
    )


def _processor(crud: Run, trip_s: float) -> tuple[str, str, str]:
    residence_s = DISK_S + trip_s
    busiest = max(cpu_stations(crud), key=lambda station: station.demand_s)
    share = CALLERS / residence_s * busiest.demand_s
    most = most_in_flight(crud, residence_s)
    return (
        f"{busiest.name} {100 * share:.0f} % busy at {CALLERS / DISK_S:,.0f} calls/s",
        YES if share <= ROOM else TIGHT if share <= 1 else NO,
        f"{most} in flight, {most / residence_s:,.0f} calls/s",
    )


def _window(pipelined: Run, trip_s: float) -> tuple[str, str, str]:
    slowest = max(cpu_stations(pipelined), key=lambda station: station.demand_s)
    gain = trip_s / slowest.demand_s
    return (
        f"{1e6 * trip_s:.0f} µs against {1e6 * slowest.demand_s:.0f} µs",
        YES if gain >= 2 else TIGHT,
        f"{1 / slowest.demand_s:,.0f} messages/s, {gain:.1f} {TIMES} one at a time",
    )


def _core_each(small: Run) -> tuple[str, str, str]:
    stations = cpu_stations(small)
    slowest = max(stations, key=lambda station: station.demand_s)
    return (
        f"{1e6 * slowest.demand_s:.0f} µs for {slowest.name}",
        YES if len(stations) > 1 else TIGHT,
        f"{slowest.most_per_s:,.0f} calls/s at the bend",
    )


def _users(small: Run) -> tuple[str, str, str]:
    # The server in front answers one call and makes another: it pays for both sides.
    front_s = sum(station.demand_s for station in cpu_stations(small))
    share = USERS / BACK_END_S * front_s
    return (
        f"the server in front {100 * share:.0f} % busy at {USERS / BACK_END_S:,.0f} calls/s",
        YES if share <= ROOM else TIGHT,  # the lesson makes its back end slower then
        f"{BACK_END_S * ROOM / front_s:,.0f} users",
    )


def _flood(free_bytes: float) -> tuple[str, str, str]:
    needed_bytes = FLOOD * FLOOD_BYTES
    return (
        f"{free_bytes / 1e6:,.0f} MB free for {needed_bytes / 1e6:,.0f} MB",
        YES if free_bytes >= 2 * needed_bytes else NO,
        f"{free_bytes / 2 / FLOOD_BYTES:,.0f} calls at once",
    )


def _servers(free_bytes: float) -> tuple[str, str, str]:
    needed_bytes = SERVERS * SERVER_BYTES
    return (
        f"{free_bytes / 1e6:,.0f} MB free for {needed_bytes / 1e6:,.0f} MB",
        YES if free_bytes >= needed_bytes else NO,
        f"{free_bytes / SERVER_BYTES:,.0f} servers",
    )


def _designed(small: Run) -> tuple[str, str, str]:
    slowest = max(cpu_stations(small), key=lambda station: station.demand_s)
    share = DESIGNED_PER_S * slowest.demand_s
    return (
        f"{slowest.name} {100 * share:.0f} % busy at {DESIGNED_PER_S:,.0f} calls/s",
        YES if share <= ROOM else TIGHT if share <= 1 else NO,
        f"{ROOM * slowest.most_per_s:,.0f} calls/s",
    )
