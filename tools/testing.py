"""Run the tests: `python3 course.py test [--long] [arguments for pytest]`.

Most tests look at what happened, whatever else the machine does meanwhile, so several processes of
pytest-xdist work through them. The tests marked `alone` compare a measurement with a prediction:
they run in a second call of pytest, one after the other. A third call runs what failed, or was not
reached, once more with nothing beside it. Only a test that fails there too makes the command fail.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import Final

import psutil
import pytest

from tools.outcomes import FILE

DURATION: Final = "about 6 minutes on two quick cores with nothing else to do"
LONG: Final = "more than an hour"
MOST_PROCESSES: Final = 5
ALONE: Final = ("-n0",)
STOPPED: Final = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
MOST_REPEATED: Final = 60  # more failures than this do not come from a busy machine


@dataclass
class Call:
    """What one call of pytest did: its exit status, and the names of tests by what became of them.

    `failed` also holds files that could not be read, and tests that ended their process.
    """

    status: int
    planned: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    """The reason for each test that was skipped."""
    begun: set[str] = field(default_factory=set)

    def add(self, later: "Call") -> None:
        """Take the results of a call that ran what this one did not."""
        self.status = later.status
        self.begun |= later.begun
        self.passed |= later.passed
        self.failed |= later.failed
        self.skipped |= later.skipped

    @property
    def not_run(self) -> set[str]:
        """The tests without a result."""
        return self.planned - self.passed - self.failed - self.skipped.keys()


class Machine:
    """How busy the machine was since this object was made, beside the tests themselves."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def __str__(self) -> str:
        times, before = psutil.cpu_times(), self._before
        spent = {name: getattr(times, name) - getattr(before, name) for name in times._fields}
        # Linux counts the time of guests in that of users.
        total_s = sum(s for name, s in spent.items() if not name.startswith("guest")) or 1
        idle_s = spent["idle"] + spent.get("iowait", 0)
        used = os.times()  # this process and its children that ended
        ours_s = used.user + used.system + used.children_user + used.children_system
        host_s = spent.get("steal", 0)
        others_s = max(0.0, total_s - idle_s - host_s - ours_s)
        load = ", ".join(f"{each:.1f}" for each in psutil.getloadavg())
        return (
            f"{os.cpu_count()} cores; load {load} (over 1, 5 and 15 minutes); of the processor "
            f"time {others_s / total_s:.0%} went to other programs, and the host took "
            f"{host_s / total_s:.0%}"
        )


def call_pytest(arguments: Sequence[str]) -> Call:
    """Run pytest in a process of its own, and return what it had written when it ended."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder, "outcomes.jsonl")
        outcomes.touch()
        command = [sys.executable, "-m", "pytest", "-p", "tools.outcomes", *arguments]
        with subprocess.Popen(command, env={**os.environ, FILE: str(outcomes)}) as process:
            while True:
                try:
                    status = process.wait()
                    break
                except KeyboardInterrupt:  # Ctrl-C reaches pytest, too: it ends, and we report
                    continue
        lines = outcomes.read_text(encoding="utf-8").splitlines()
    return read(status, (loads(line) for line in lines))


def read(status: int, events: Iterable[Sequence[str]]) -> Call:
    """Sum up the events of one call."""
    call = Call(status)
    for kind, test, text in events:
        if kind == "skipped":
            call.skipped[test] = text
        else:
            getattr(call, kind).add(test)
    # A test that began and has no result ended its process.
    call.failed |= (
        call.begun - call.passed - call.skipped.keys() if status not in STOPPED else set()
    )
    call.passed -= call.failed  # a test that passed, and whose teardown failed
    return call


def report(calls: Mapping[str, Call], again: Call, machine: Machine) -> int:
    """Print what failed and where, what was not tested and why, and how busy the machine was.

    Return how many tests failed for good.
    """
    results = [*calls.values(), again]
    passed = set[str]().union(*(call.passed for call in results))
    skipped = {test: reason for call in results for test, reason in call.skipped.items()}
    # What passed alone has passed, and what was skipped alone is no failure.
    settled = again.passed | again.skipped.keys()
    failed = set[str]().union(*(call.failed | call.not_run for call in calls.values())) - settled
    lines = [
        f"failed {where}, {_ended_alone(again, test)}: {test}"
        for where, call in calls.items()
        for test in call.failed
    ]
    unreached = [test for call in calls.values() for test in call.not_run - again.planned]
    if lines or unreached:
        _section("what did not pass at once")
    print("\n".join(sorted(lines)))
    if unreached:
        first = min(unreached)
        print(f"{len(unreached)} did not run, because the run was stopped: {first}, ...")
    if skipped:
        _section("not tested here")
        for reason, count in Counter(skipped.values()).most_common():
            print(f"{'1 test' if count == 1 else f'{count} tests'}: {reason}")
    _section("the machine")
    print(machine)
    # One line that programs can read, as pytest's own lines cover one call each.
    counts = len(passed - failed), len(failed), len(skipped)
    print("course: {} passed, {} failed, {} skipped".format(*counts), flush=True)
    return len(failed)


def _ended_alone(again: Call, test: str) -> str:
    if test in again.skipped:
        return "skipped alone"
    if test in again.passed:
        return "passed alone"
    return "failed alone" if test in again.failed else "not run alone"


def _section(title: str) -> None:
    print(f"\n{f' {title} ':=^80}")


def main(arguments: Sequence[str]) -> int:
    """Run pytest as often as it takes; return its status, or 1 if a test failed twice."""
    os.environ["COURSE_MODE"] = "fast"
    machine = Machine()
    # A file that cannot be read fails; the others run all the same.
    options = ["--durations=20", "--durations-min=5", "--continue-on-collection-errors"]
    options += [each for each in arguments if each != "--long"]
    calls: dict[str, Call] = {}
    if "--long" in arguments:
        print(f"course.py test: the long tests take {LONG}", flush=True)
        calls["in the first run"] = to_the_end([], ["-m", "long", *options])
    elif any(each.startswith("-m") for each in arguments):
        calls["beside other tests"] = to_the_end(side_by_side(), options)
    else:
        if not arguments:
            print(f"course.py test: the tests and the core notebooks take {DURATION}", flush=True)
        chosen = ["-m", "not alone and not long", *options]
        calls["beside other tests"] = to_the_end(side_by_side(), chosen)
        if _may_go_on(calls["beside other tests"]):
            print("\ncourse.py test: the tests that run alone", flush=True)
            chosen = ["-m", "alone and not long", *options, *ALONE]
            calls["in the first run"] = to_the_end(ALONE, chosen)
    if not any(call.planned or call.failed for call in calls.values()):
        return max(call.status for call in calls.values())  # --help, a usage error, or no test
    interrupted = any(not _may_go_on(call) for call in calls.values())
    unsettled = set[str]().union(*(call.failed | call.not_run for call in calls.values()))
    again = Call(0)
    if unsettled and not interrupted and len(unsettled) <= MOST_REPEATED:
        print(f"\ncourse.py test: once more, alone: {len(unsettled)}", flush=True)
        again = to_the_end(ALONE, named=unsettled)
    failed = report(calls, again, machine)
    return pytest.ExitCode.INTERRUPTED if interrupted else int(failed > 0)


def side_by_side() -> list[str]:
    """Return the options with which several processes share the tests.

    More processes than cores, because most tests wait most of the time; each takes a third of a
    GiB. A process that dies is not replaced: pytest-xdist would give it the same test again.
    """
    processes = min(MOST_PROCESSES, 3 * (os.cpu_count() or 1))
    options = ["-n", str(processes), "--dist=loadgroup", "--no-loadscope-reorder"]
    return [*options, "--max-worker-restart=0"]


def to_the_end(how: Sequence[str], chosen: Sequence[str] = (), named: Collection[str] = ()) -> Call:
    """Run the tests that are chosen or named, and again what a call that broke off left out."""
    call = call_pytest([*how, *chosen]) if chosen else Call(0, planned=set(named))
    while _may_go_on(call) and call.not_run:
        before = call.not_run
        with tempfile.TemporaryDirectory() as folder:
            names = Path(folder, "tests.txt")
            names.write_text("\n".join(sorted(before)), encoding="utf-8")
            call.add(call_pytest([*how, "-m", "", f"@{names}"]))
        if call.not_run == before:
            break
    return call


def _may_go_on(call: Call) -> bool:
    """Return whether it was not a person, `-x` or a usage error that ended this call.

    A file that cannot be read has the status of an interrupt, too; then no test has begun.
    """
    unread = call.status == pytest.ExitCode.INTERRUPTED and call.failed and not call.begun
    return call.status not in STOPPED or bool(unread)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
