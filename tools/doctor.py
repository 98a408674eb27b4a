"""Say in ten seconds whether this machine is ready: `python3 course.py doctor [LESSON]`.

The first checks need nothing but Python, so they also work before anything is installed. Then the
machine is measured: what other programs take, how late a timer comes, and what the lesson of the
day will show here. The last line is "ready", "ready, with a note" or "not ready", and what to do.
"""

from __future__ import annotations  # an old Python gets as far as a message

import contextlib
import io
import math
import os
import re
import shutil
import socket
import statistics
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
READY, NOTE, NOT_READY = "ready", "note", "not ready"
DISK_BYTES = 2e9
MEMORY_BYTES = 1e9
BUSY_SHARE = 0.3
"""The share of all cores that other programs may take."""
LATE_S = 0.010
"""A timer of 10 ms may come so much later, at the median."""
WATCHED_S = 1.0
RUN_S = 0.5
LESSON_RUN_S = 10.0
NEARLY_ALL = 1.96
"""So many deviations hold 95 % of what is drawn."""
FAR_BELOW = 0.6
"""With less than this part of a bound, the room sees the processor and not the lesson's law."""


class Finding(NamedTuple):
    """What was looked at, and what to do about it."""

    level: str
    text: str
    cure: str = ""


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Whether the lessons run on this Python."""
    shown = ".".join(map(str, version))
    if version < (3, 11):
        cure = "install Python 3.11 or newer, then for example: python3.13 course.py doctor"
        return Finding(NOT_READY, f"Python {shown} is too old", cure)
    if version >= (3, 15):
        return Finding(NOTE, f"Python {shown}", "the course was tested with 3.11 to 3.14")
    return Finding(READY, f"Python {shown}")


def disk(folder: Path = ROOT, needed: float = DISK_BYTES) -> Finding:
    """Whether the packages and the learner's files have room."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        cure = f"free {(needed - free) / 1e9:.1f} GB, or move the course to another disk"
        return Finding(NOT_READY, f"{free / 1e9:.1f} GB free on the disk", cure)
    return Finding(READY, f"{free / 1e9:.0f} GB free on the disk")


def folder(place: Path = ROOT) -> Finding:
    """Whether the course can write where it lies: really, as rights alone do not tell."""
    probe = place / f".doctor-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        cure = "copy the course to a folder of your own, such as your home folder"
        return Finding(NOT_READY, f"{place} cannot be written ({error.strerror})", cure)
    return Finding(READY, f"{place} can be written")


def loopback(listen: Callable[..., socket.socket] = socket.create_server) -> Finding:
    """Whether programs on this machine reach each other, as client and server do."""
    try:
        with listen(("127.0.0.1", 0)) as server:
            server.settimeout(5)
            with socket.create_connection(server.getsockname(), timeout=5) as client:
                client.sendall(b"x")
                accepted, _ = server.accept()
                with accepted:
                    accepted.settimeout(5)
                    accepted.recv(1)
    except OSError as error:
        cure = "allow Python in the firewall or the security program, for this machine alone"
        return Finding(NOT_READY, f"no connection to 127.0.0.1 ({error})", cure)
    return Finding(READY, "ports of this machine can be reached")


def proxy() -> Finding:
    """Whether the browser might be sent through a proxy to a page of this machine."""
    set_to = urllib.request.getproxies().get("http")
    if set_to and not urllib.request.proxy_bypass("127.0.0.1"):
        cure = "if the page does not open: except localhost and 127.0.0.1 from the proxy (no_proxy)"
        return Finding(NOTE, "a proxy is set", cure)
    return Finding(READY, "no proxy is in the way")


def browser() -> Finding:
    """Whether a browser opens by itself."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        return Finding(NOTE, "no browser was found", "open the address that `lab` prints yourself")
    return Finding(READY, "a browser was found")


def packages() -> Finding:
    """Whether this Python has what the lessons need."""
    from tools.satisfied import missing

    lacking = list(missing("course"))
    if lacking:
        cure = "python3 course.py lab (with the internet, or --wheelhouse FOLDER)"
        return Finding(NOT_READY, f"not set up: {'; '.join(lacking[:2])}", cure)
    return Finding(READY, "the lessons are installed")


def memory(available: Callable[[], float] | None = None) -> Finding:
    """Whether a lesson has the memory that it takes, with a browser beside it."""
    from kvstore.measure.host import available_memory_bytes

    free = (available or available_memory_bytes)()
    if free < MEMORY_BYTES:
        return Finding(NOT_READY, f"{free / 1e9:.1f} GB of memory free", "close other programs")
    return Finding(READY, f"{free / 1e9:.1f} GB of memory free")


def progress_file() -> Finding:
    """Whether predictions and answers can be kept."""
    from kvstore.course import progress

    place = progress.path().parent
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"{place} cannot be made ({error.strerror})"
        return Finding(NOT_READY, text, "set COURSE_PROGRESS to a file in a folder of your own")
    written = folder(place)
    cure = "set COURSE_PROGRESS to a file in a folder of your own"
    return written._replace(cure=cure) if written.cure else written


def others(watched_s: float = WATCHED_S) -> Finding:
    """How many cores there are, and what other programs and the host take of them."""
    import psutil

    from kvstore.measure import cores

    used = psutil.cpu_times_percent(watched_s)  # this process sleeps meanwhile
    busy = 1 - used.idle / 100 - getattr(used, "iowait", 0) / 100
    have = "1 core" if cores() == 1 else f"{cores()} cores"
    text = f"{have}; other programs take {busy:.0%} of the processor time"
    if busy > BUSY_SHARE:
        cure = "close other programs, connect the charger, and call the doctor again"
        return Finding(NOT_READY, text, cure)
    few = "runs of many clients will bend early" if cores() < 2 else ""
    return Finding(NOTE if few else READY, text, few)


def timers(sleep: Callable[[float], object] = time.sleep) -> Finding:
    """How late a pause of 10 ms ends: the simulated disk of the lessons is such a pause."""
    late_s = []
    for _ in range(50):
        began_s = time.perf_counter()
        sleep(0.010)
        late_s.append(time.perf_counter() - began_s - 0.010)
    median_s = statistics.median(late_s)
    text = (
        f"a timer of 10 ms is {1e3 * median_s:.1f} ms late (median), {1e3 * max(late_s):.1f} most"
    )
    if median_s > LATE_S:
        cure = "connect the charger, leave the energy saver, and close other programs"
        return Finding(NOT_READY, text, cure)
    return Finding(READY, text)


class Shown(NamedTuple):
    """A number that a lesson measures, and what it is built from."""

    question_id: str
    text: str
    in_flight: int
    """As many as keep the bottleneck full: a lesson's hundred only wait longer at one lock."""
    at_once: int
    """How many calls are served at the same time."""
    disk_s: Mapping[str, tuple[float, float]]
    """For reads and writes: their share of the calls, and the time of the disk."""
    server: Mapping[str, object]


MIX = {"reads": (0.25, 0.010), "writes": (0.75, 0.050)}
ONE_LOCK = {"locking": "global", "threads": 100}
SHOWN = {
    "01": [Shown("01.mix", "one call at a time", 1, 1, MIX, ONE_LOCK)],
    "03": [
        Shown("03.global_lock", "one lock", 4, 1, MIX, ONE_LOCK),
        Shown(
            "03.per_key",
            "100 in flight, short lock",
            100,
            100,
            MIX,
            {"locking": "per_key", "threads": 100},
        ),
    ],
    "04": [
        Shown(
            "04.pool",
            "a pool of 8, 32 in flight",
            32,
            8,
            {"reads": (1, 0.020)},
            {"locking": "per_key", "threads": 8},
        )
    ],
}
"""What the lessons show whose result depends on the machine most. Others build on them."""
OF_ANY_DAY = "03"


def interval_per_s(shown: Shown) -> tuple[float, float, float]:
    """Return what a lesson will show here, from and to, and its bound; measured in short runs.

    Each kind of call has its own runs: in a mix, two short runs would differ by what they drew.
    """
    from kvstore.client import load, strategies, workload
    from kvstore.server.launch import serving

    strategy = strategies.blocking if shown.in_flight == 1 else strategies.bounded
    delays = {f"{kind[:-1]}_delay_s": of[1] for kind, of in shown.disk_s.items()}
    call_s, differ = 0.0, 0.0
    with serving(**delays, **shown.server) as server:
        for kind, (share, _) in shown.disk_s.items():
            drawn = {"reads": workload.reads, "writes": workload.writes}[kind]()
            rates = [
                load.run(
                    strategy, server, drawn, in_flight=shown.in_flight, duration_s=RUN_S
                ).throughput_per_s
                for _ in range(2)
            ]
            call_s += share / max(rates)
            differ = max(differ, 1 - min(rates) / max(rates))
    rate = 1 / call_s
    bound = shown.at_once / sum(share * disk_s for share, disk_s in shown.disk_s.values())
    # The lesson's run draws its calls: their mean work varies by its deviation / root of the count.
    work_s = [share * disk_s for share, disk_s in shown.disk_s.values()]
    squares = sum(share * disk_s**2 for share, disk_s in shown.disk_s.values())
    deviation = math.sqrt(squares / sum(work_s) ** 2 - 1)
    drawn_share = NEARLY_ALL * deviation / math.sqrt(rate * LESSON_RUN_S)
    # What the processor takes of a call differs more from run to run than what the disk takes.
    slack = 0.08 + drawn_share + differ + max(0.0, 1 - rate / bound) / 2
    return rate * (1 - slack), rate * (1 + slack), bound


def shows(shown: Shown) -> Finding:
    """What a lesson will show here, beside its bound."""
    low, high, bound = interval_per_s(shown)
    text = f"lesson {shown.question_id[:2]}, {shown.text}: {low:,.0f} to {high:,.0f} calls/s"
    text += f" (bound {bound:,.0f})"
    if high < FAR_BELOW * bound:
        return Finding(NOTE, text, "the processor is the bottleneck there: say so before the vote")
    return Finding(READY, text)


def findings(lesson: str = OF_ANY_DAY) -> Iterator[Finding]:
    """All that is looked at, in order; nothing is measured where something is missing."""
    yield from (python(), disk(), folder(), loopback(), proxy(), browser())
    installed = packages()
    yield installed
    if installed.level == READY:
        yield from (memory(), progress_file(), others(), timers())
        with contextlib.suppress(KeyboardInterrupt):
            yield from map(shows, SHOWN.get(lesson, SHOWN[OF_ANY_DAY]))


def main(arguments: Sequence[str] = (), look: Callable[[str], Iterator[Finding]] = findings) -> int:
    """Print each finding and the verdict; return 1 if the machine is not ready."""
    if unknown := [each for each in arguments if not re.fullmatch(r"\d{1,2}", each)][:1]:
        print(f"course.py doctor: give the number of a lesson, such as 03, got {unknown[0]}")
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file on Windows has no check mark
        sys.stdout.reconfigure(errors="replace")
    marks = {READY: "✔", NOTE: "!", NOT_READY: "✘"}
    results = []
    for each in look(arguments[0].zfill(2) if arguments else OF_ANY_DAY):
        results.append(each)
        cure = f": {each.cure}" if each.cure else ""
        print(f"{marks[each.level]} {each.text}{cure}", flush=True)
    worst = [each for each in results if each.level == NOT_READY]
    notes = [each for each in results if each.level == NOTE]
    if worst:
        print(f"not ready: {worst[0].text}. {worst[0].cure[0].upper()}{worst[0].cure[1:]}.")
    elif notes:
        print(f"ready, with a note: {notes[0].text}; {notes[0].cure}.")
    else:
        print("ready")
    return int(bool(worst))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
