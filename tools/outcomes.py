"""A plugin of pytest that writes down each result as it comes, so that any end leaves a list.

`tools/testing.py` loads it with `-p tools.outcomes` and reads the file that COURSE_TEST_OUTCOMES
names: one JSON list a line, `[kind, test, text]`. The kinds are `planned`, `begun`, `passed`,
`failed` and `skipped`. Without the variable the plugin does nothing.
"""

import json
import os
from collections.abc import Sequence
from typing import IO, Any

import pytest

FILE = "COURSE_TEST_OUTCOMES"


def pytest_configure(config: pytest.Config) -> None:
    """Begin to write, in the process that hears of every test, unless none is to be run."""
    place = os.environ.get(FILE)
    if place and not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(Outcomes(place))


class Outcomes:
    """Writes each event to a file; a line is whole before the next thing happens."""

    def __init__(self, place: str) -> None:
        self._file: IO[str] = open(place, "a", encoding="utf-8", buffering=1)  # noqa: SIM115

    def _write(self, kind: str, test: str = "", text: str = "") -> None:
        self._file.write(json.dumps([kind, without_group(test), text]) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write which tests this process will run."""
        for item in session.items:
            self._write("planned", item.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Write which tests the processes of pytest-xdist will share."""
        for test in ids:
            self._write("planned", test)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write that a test begins."""
        self._write("begun", nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write that a file cannot be read."""
        if report.failed:
            self._write("failed", report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write how a test, its setup or its teardown ended."""
        if report.failed:
            self._write("failed", report.nodeid)
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._write("skipped", report.nodeid, _reason(report))
        elif report.when == "call":
            self._write("passed", report.nodeid)


def without_group(test: str) -> str:
    """Return the name of a test without the group that pytest-xdist appends as `@group`."""
    return test.rpartition("@")[0] if test.rfind("@") > test.rfind("]") else test


def _reason(report: Any) -> str:
    """Return why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
