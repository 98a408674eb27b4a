"""Run the tests: `python3 course.py test [--long] [arguments for pytest]`.

Most tests look at what happened, whatever else the machine does meanwhile, so several processes of
pytest-xdist work through them. The tests marked `alone` compare a measurement with a prediction:
they run in a second call of pytest, one after the other.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

DURATION: Final = "about 6 minutes on two quick cores with nothing else to do"
LONG: Final = "more than an hour"
MOST_PROCESSES: Final = 5


class Tally:
    """A plugin that adds the results of all calls of pytest, and says what was skipped and why."""

    def __init__(self) -> None:
        self.is_last = False
        self.ran = False
        self._earlier: dict[str, list[object]] = {}
        self._failed = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Keep a failure of an earlier call; no test at all is a failure only for all calls."""
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or session.config.getoption("collectonly") is not False:
            return
        self.ran = True
        some_ran = any(kind not in ("", "deselected") for kind in self._earlier)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (some_ran or not self.is_last):
            session.exitstatus = pytest.ExitCode.OK
        self._failed = self._failed or int(session.exitstatus)
        session.exitstatus = self._failed
        if not self.is_last:
            self._earlier = {kind: [*found] for kind, found in reporter.stats.items()}
            return
        for kind, found in self._earlier.items():
            reporter.stats.setdefault(kind, []).extend(found)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was not tested here, in a line for each reason."""
        if not self.is_last:
            return
        reasons = Counter(_reason(each) for each in terminalreporter.stats.get("skipped", ()))
        if reasons:
            terminalreporter.section("not tested here")
        for reason, count in reasons.most_common():
            tests = "1 test" if count == 1 else f"{count} tests"
            terminalreporter.line(f"{tests}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    """Why this test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def main(arguments: Sequence[str]) -> int:
    """Run pytest, twice unless the arguments choose by a mark; return the exit status."""
    os.environ["COURSE_MODE"] = "fast"
    chosen = [each for each in arguments if each != "--long"]
    if "--long" in arguments:
        print(f"course.py test: the long tests take {LONG}", flush=True)
        return int(pytest.main(["-m", "long", *chosen]))
    if not chosen:
        print(f"course.py test: the tests and the core notebooks take {DURATION}", flush=True)
    # More than cores, because most tests wait most of the time; each takes a third of a GiB.
    processes = min(MOST_PROCESSES, 3 * (os.cpu_count() or 1))
    side_by_side = ["-n", str(processes), "--dist=loadgroup", "--no-loadscope-reorder"]
    side_by_side += ["--max-worker-restart=0"]  # a test that ends its process is a failure
    chosen = ["--durations=20", "--durations-min=5", *chosen]
    tally = Tally()
    if not any(each.startswith("-m") for each in chosen):
        status = pytest.main(
            ["-m", "not alone and not long", *side_by_side, *chosen], plugins=[tally]
        )
        if not tally.ran or status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return int(status)
        print("\ncourse.py test: the tests that run alone", flush=True)
        side_by_side = ["-m", "alone and not long"]
    tally.is_last = True
    return int(pytest.main([*side_by_side, *chosen], plugins=[tally]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
