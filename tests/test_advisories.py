"""Advisories of the dependencies: what a report says, and a source that cannot be reached."""

import pytest
from tables import for_each

from tools import advisories

SKIPPED = {"name": "a", "skip_reason": "Dependency not found on PyPI and could not be audited"}
SOUND = {"name": "b", "version": "1.0", "vulns": []}
HIT = {
    "name": "jinja2",
    "version": "3.1.4",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.5"], "aliases": [], "description": ""}],
}


@for_each(
    ("known", "ours", "status", "says"),
    [
        (HIT, SOUND, 0, "no known advisory for 1 packages"),
        (HIT, HIT, 1, "jinja2 3.1.4: PYSEC-1, repaired in 3.1.5"),
        (SKIPPED, SOUND, advisories.UNREACHED, "cannot be reached"),
        (SOUND, SOUND, advisories.UNREACHED, "cannot be reached"),
        (None, SOUND, advisories.UNREACHED, "cannot be reached"),
        (HIT, None, advisories.UNREACHED, "before it had answered"),
    ],
)
def test_the_status_says_whether_there_is_an_advisory(
    known, ours, status, says, monkeypatch, capsys
):
    reports = iter([known, ours])

    def audited(_requirements, _arguments):
        package = next(reports)
        return None if package is None else {"dependencies": [package], "fixes": []}

    monkeypatch.setattr(advisories, "_audited", audited)

    assert status == advisories.main([])
    assert says in capsys.readouterr().out


def test_a_program_that_writes_no_report_gives_none(tmp_path, monkeypatch):
    monkeypatch.setattr(advisories, "COMMAND", (advisories.sys.executable, "-c", "0"))

    assert advisories._audited(tmp_path / "none.txt", []) is None


@pytest.mark.slow
def test_where_pip_audit_is_missing_the_source_cannot_be_reached(capsys):
    """The course's own environment does not have it."""
    assert advisories.main(["--no-such-option"]) == advisories.UNREACHED
    assert "cannot be reached" in capsys.readouterr().out
