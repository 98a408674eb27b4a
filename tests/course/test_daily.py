"""The services of a day: one for everybody, and the method of the lessons reaches its par."""

import datetime
import json
import re

import pytest

from kvstore.course import progress
from kvstore.course.lessons.lesson_15 import capstone, daily
from kvstore.course.lessons.lesson_15.judge import Refused
from kvstore.course.lessons.lesson_15.judge import days as judged
from tools import capstone_trial

DAY = "2025-03-21"
LAST = datetime.date.fromisoformat(DAY)


def played(learner="ada", level="A", changes=None):
    """The record of a computed sitting that bought these changes, by default the right ones."""
    service = capstone_trial.Computed(judged.sitting_of(DAY, level, learner=learner))
    service.predict(result=100.0)
    service.buy(*(judged.case_of(DAY, level).cures() if changes is None else changes))
    service.run()
    return service.record()


def test_the_service_of_a_day_is_the_same_for_everybody_and_another_each_day():
    days = [str(LAST - datetime.timedelta(days=back)) for back in range(10)]

    assert judged.case_of(DAY, "C") == judged.case_of(DAY, "C")
    assert 30 == len({repr(judged.case_of(d, level)) for d in days for level in judged.LEVELS})
    assert played("ada")["final"]["case"] == played("eve")["final"]["case"]
    assert played("ada")["id"] != played("ada")["id"]  # another try has a record of its own


@pytest.mark.parametrize("level", judged.LEVELS)
def test_par_is_reached_with_the_right_changes_and_not_without(level):
    assert judged.share_of_par(played(level=level)) >= capstone_trial.PAR
    assert judged.share_of_par(played(level=level, changes=[])) < 0.8


def test_a_lost_call_leaves_nothing_of_par():
    record = played()
    record["final"]["result"]["lost"] = 1

    assert 0 == judged.share_of_par(record)


def test_the_line_to_share_says_nothing_of_the_stations():
    line = judged.line_to_share(played(), tries=2)

    assert re.fullmatch(
        rf"RPC service {DAY} A · par [\d,]+/s · mine \d\.\d\d · 1 purchase · try 2", line
    )


def test_the_brief_says_of_each_level_whether_a_server_fails():
    said = {level: judged.sitting_of(DAY, level).brief()["fails"] for level in judged.LEVELS}
    fails = {level: judged.case_of(DAY, level).fault is not None for level in judged.LEVELS}

    assert said == fails
    assert set(said.values()) == {True, False}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("2999-01-01",), "the service of 2999-01-01 opens on that day"),
        (("25.11.2026",), "write the day as year, month and day"),
        ((None, "D"), "the level is one of A, B, C, got 'D'"),
        ((None, ["A"]), "the level is one of A, B, C"),
    ],
)
def test_another_day_or_level_is_refused_with_one_line(given, says):
    with pytest.raises(Refused, match=says):
        daily.day(*given)


def test_a_repeat_keeps_the_best_result_and_counts_the_tries(own_progress):
    progress.keep_day("2025-03-20 A", 90.0, 0.5, 3)
    for share, purchases in ((0.8, 3), (0.97, 9), (0.97, 4), (0.2, 1)):
        progress.keep_day("2025-03-21 C", 100.0, share, purchases)

    table = daily.days()

    assert ["2025-03-21 C", "2025-03-20 A"] == list(table.index)
    assert [100, 0.97, 4, 4] == list(table.loc["2025-03-21 C"])


@pytest.mark.long
def test_ten_days_reach_par_by_the_method_and_not_by_random_purchases():
    days = [str(LAST - datetime.timedelta(days=back)) for back in range(10)]
    shares = {
        player: [capstone_trial.share_of_day(player, each, "C") for each in days]
        for player in ("learner", "at_random")
    }

    # Its measurements are drawn anew each time: once in a thousand they mislead it.
    assert 9 <= sum(each >= capstone_trial.PAR for each in shares["learner"])
    assert 2 >= sum(each >= capstone_trial.PAR for each in shares["at_random"])


@pytest.mark.slow
def test_the_process_of_a_day_keeps_its_case_and_its_score_is_kept(
    own_progress, tmp_path, page, monkeypatch
):
    monkeypatch.setenv("COURSE_MODE", "fast")
    with daily.day(DAY, "A", learner="ada", folder=tmp_path) as service:
        shown = json.dumps([service.brief, service.record()])
        assert "a third of the services" not in repr(service)
        service.predict(result=100.0)
        service.buy(*judged.case_of(DAY, "A").cures())
        before = len(page)
        score = service.run(capstone.patient)

    assert len(page) == before + 1, "one line is shown, and no points beside it"
    assert "points" not in repr(score) + page[-1]["text/html"]
    assert "widths" not in shown
    assert "par_per_s" not in shown
    assert page[-1]["text/plain"].startswith(f"RPC service {DAY} A · par ")
    assert 1 == daily.days().loc[f"{DAY} A", "tries"]
