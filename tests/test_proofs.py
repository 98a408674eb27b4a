"""The short forms of `course.py prove`, and that a prover finds what is wrong."""

from collections.abc import Iterator

import pytest
from tables import for_each

import proofs.__main__ as command
from kvstore.client import strategies
from kvstore.measure.recorder import Recorder
from kvstore.server import serving
from proofs import faults
from proofs.case import Case, Figure, Skipped
from proofs.faults.table import FAULTS, QUICK

HELD = Case("held")
ELSEWHERE = ("clients", "conformance")
"""These have tests of their own: the first takes most of a minute, the others need programs."""
SHORT = [name for name in command.NAMES if name not in ELSEWHERE]


@pytest.mark.slow
@pytest.mark.timeout(600)  # they end long before; this machine may have much to do besides
@pytest.mark.parametrize("name", SHORT)
def test_the_short_form_holds(name, capsys):
    assert command.run(name, short=True), capsys.readouterr().out


def test_there_are_forty_faults_and_each_has_a_name_of_its_own():
    names = [fault.name for fault in FAULTS]

    assert len(set(names)) == len(names)
    assert 40 <= sum(fault.short for fault in FAULTS) < len(names)


@pytest.mark.slow
def test_a_call_that_is_recorded_twice_is_found(monkeypatch):
    """The judge reads the accounts: here the fourth call ends twice."""
    record = Recorder.record

    def stutters(self, *fields) -> None:
        record(self, *fields)
        if len(self) == 4:
            record(self, *fields)

    monkeypatch.setattr(Recorder, "record", stutters)
    monkeypatch.setattr("kvstore.client.monitor.SETTLE_S", 0.5)
    fin = next(fault for fault in FAULTS if fault.name == "ctrl c")
    bounded = next(way for way in faults.ways() if way.strategy is strategies.bounded)
    with serving(**QUICK) as server:
        wrong, _ = faults.judge(fin, bounded, server, 20.0)

    assert any("DOES NOT HOLD" in each for each in wrong), wrong


@for_each(
    ("found", "holds", "says"),
    [
        ([HELD, Figure("kills", 1000)], True, "1 cases, 1 as expected, 0 not; 0 s; kills: 1,000"),
        ([HELD, Case("lost", "a write")], False, "2 cases, 1 as expected, 1 not"),
        ([], False, "0 cases"),
        ([Skipped("no Go")], False, "0 cases, 0 as expected, 0 not; 0 s; skipped: no Go"),
    ],
)
def test_a_summary_line_says_what_was_proved(found, holds, says, monkeypatch, capsys):
    def prover(name: str, short: bool) -> Iterator[Case | Figure | Skipped]:
        return iter(found)

    monkeypatch.setattr(command, "prover", prover)

    assert holds is command.run("made up", short=True)
    assert f"made up: {says}" in capsys.readouterr().out


def test_an_unknown_prover_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(["fault"])

    assert "no prover is called fault; there are faults" in capsys.readouterr().err
