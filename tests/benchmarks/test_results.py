"""results.py and compare.py: a file that others can read, and what differs between two."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.compare import changed_conditions, compare, missing, report, verdict
from benchmarks.results import FOLDER, NotResults, Results, Round, Row, new_path


def row(client: str, *rates: float, cpu_s: float = 1e-4) -> Row:
    rounds = [Round(rate, cpu_s * n, 2 * cpu_s) for n, rate in enumerate(rates, 1)]
    return Row("asyncio", client, 100, rounds=rounds)


def results(*rows: Row, **host: object) -> Results:
    return Results({"quick": False}, list(rows), {"cores": 2, **host}, "2026-01-01T12:00:00+00:00")


# ---- the file ------------------------------------------------------------------------------


def test_what_is_saved_is_what_is_read(tmp_path: Path):
    content = Row(
        "threads", "tasks", 10_000, "bare aio", 5_000.0, "server CPU",
        [Round(4_000.0, 1e-4, 2e-4, 3_000.0, 2_000.0, 7), Round(1.0, 0.5, 0.25, 1.0, 2.0, 0)],
    )  # fmt: skip
    results(content).save(tmp_path / "a.json")

    assert asdict(results(content)) == asdict(Results.load(tmp_path / "a.json"))
    assert ["a.json"] == [path.name for path in tmp_path.iterdir()]


def test_unknown_figures_are_null_in_the_file_and_nan_in_memory(tmp_path: Path):
    results(row("tasks", 1.0)).save(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text("utf-8"))
    (read,) = Results.load(tmp_path / "a.json").rows

    assert [None] == content["rows"][0]["rounds"]["client_call_bytes"]
    assert math.isnan(read.rounds[0].client_call_bytes)
    assert math.isnan(read.predicted_per_s)
    assert math.isnan(read.median("client_call_bytes"))


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path: Path):
    path = tmp_path / "a.json"
    results(row("tasks", 1.0)).save(path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        results(row("tasks", 1.0), odd=object()).save(path)

    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a_new_file_is_beside_the_others_and_of_today():
    assert FOLDER == new_path().parent
    assert new_path().suffix == ".json"


def test_another_file_is_refused_with_the_reason(tmp_path: Path, subtests):
    for text, why in [
        ("not json", "is not JSON"),
        ("[]", "no benchmark wrote it"),
        ("{}", "no benchmark wrote it"),
        ('{"format": 99}', "has format 99, this version reads 1"),
        ('{"format": 1}', "missing or unknown entries.*rows"),
        ('{"format": 1, "rows": [{"rounds": {}}]}', "missing or unknown entries"),
        ('{"format": 1, "rows": [3]}', "missing or unknown entries"),
        ("\x00", "is not JSON"),
    ]:
        with subtests.test(text=text, why=why):
            path = tmp_path / "other.json"
            path.write_text(text, "utf-8")

            with pytest.raises(NotResults, match=rf"other\.json.*{why}"):
                Results.load(path)


def test_a_missing_file_is_reported(tmp_path: Path, subtests):
    for name in ["missing.json", "."]:
        with subtests.test(name=name), pytest.raises(NotResults, match="cannot be read"):
            Results.load(tmp_path / name)


# ---- the comparison ------------------------------------------------------------------------


def test_rows_differ_where_no_round_of_one_reaches_the_other(subtests):
    for old, new, is_ in [
        ((90, 100, 110), (111, 120, 130), "higher"),
        ((90, 100, 110), (60, 70, 89), "lower"),
        ((90, 100, 110), (110, 120, 130), "same"),
        ((90, 100, 110), (95, 100, 105), "same"),
        ((90, 100), (200, 210, 220), "too few rounds"),
        ((90, 100, 110), (200, 210), "too few rounds"),
    ]:
        with subtests.test(old=old, new=new, is_=is_):
            assert is_ == verdict(row("tasks", *old), row("tasks", *new), "per_s")


def test_the_ratio_is_that_of_the_medians_for_every_figure():
    """Median 100 to 120 operations/s; client 2e-4 to 1e-4 s, server 2e-4 to 1e-4 s."""
    old = results(row("tasks", 90, 100, 110))
    new = results(row("tasks", 110, 120, 190, cpu_s=0.5e-4))
    (found,) = compare(old, new).to_dict("records")

    assert (1.2, 0.5, 0.5) == (
        found["operations/s new/old"], found["client CPU new/old"], found["server CPU new/old"],
    )  # fmt: skip
    assert ("±10 %", "±33 %") == (found["old spread"], found["new spread"])
    assert ("same", "same", "lower") == (
        found["operations/s is"], found["client CPU is"], found["server CPU is"],
    )  # fmt: skip


def test_rows_of_one_file_only_are_named_and_not_compared():
    old = results(row("tasks", 1, 2, 3), row("threads", 1, 2, 3))
    new = results(row("tasks", 1, 2, 3), row("bounded", 1, 2, 3), row("blocking"))

    assert ["asyncio: tasks x100"] == list(compare(old, new)["row"])
    assert ["asyncio: bounded x100", "asyncio: threads x100"] == missing(old, new)


def test_another_machine_is_mentioned():
    assert ["cores: 2 before, 4 now"] == changed_conditions(results(), results(cores=4))


def test_the_report_names_what_differs_beyond_the_spread():
    said = report(results(row("tasks", 90, 100, 110)), results(row("tasks", 111, 120, 130)))

    assert "operations/s beyond the spread of the rounds: asyncio: tasks x100 (higher)" in said
    assert "server CPU beyond the spread of the rounds: none" in said


def test_a_report_of_nothing_in_common_says_so():
    assert "no row is in both" in report(results(row("tasks", 1)), results(row("threads", 1)))


def test_with_too_few_rounds_ratios_are_shown_and_nothing_is_judged():
    old, new = results(row("tasks", 100)), results(row("tasks", 150), *map(row, "abcde"))
    for each in new.rows[1:]:
        each.rounds.append(Round(1.0, 1.0, 1.0))
    said = report(old, new)

    assert "no verdict: it takes 3 rounds in both files" in said
    assert "5 rows in one of them only: asyncio: a x100" in said
    assert "1.5" in said
    assert "one round" in said
    assert "too few rounds" not in said
