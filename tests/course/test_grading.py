"""Grading: a verdict comes back for every error of an answer; check, hint and solution."""

import asyncio
import dataclasses
import sys

import numpy as np
import pytest

from kvstore.course import NOT_ATTEMPTED, check, exercises, hint, progress, solution
from kvstore.course.exercises import Exercise, find, not_yet, passed
from kvstore.course.exercises.grading import judged, same_result


def exercise(judge, **settings):
    return Exercise("00.test", judge, "", "laws.utilisation", ("hint",), **settings)


def doubles(answer):
    return passed("yes") if answer(2) == 4 else not_yet("4 was expected")


def test_a_number_may_differ_by_rounding_and_by_no_more():
    assert same_result(25.0 * (1 + 1e-9), 25.0)
    assert not same_result(25.0 * (1 + 1e-4), 25.0)


def test_an_error_in_the_answer_points_at_its_line():
    def mine(x):
        return x / 0

    verdict = judged(exercise(doubles), mine)

    assert verdict.outcome == "not yet"
    assert "`mine` stopped at line" in verdict.message
    assert "return x / 0" in verdict.message
    assert "ZeroDivisionError: division by zero" in verdict.message


def test_wrong_arguments_an_exit_and_a_missing_return_get_clear_messages():
    def mine(x):
        2 * x

    verdict = judged(exercise(doubles), lambda: 4)
    assert "could not be called: TypeError" in verdict.message
    assert "SystemExit" in judged(exercise(doubles), lambda x: sys.exit(1)).message
    assert (
        judged(exercise(doubles), mine).message == "`mine` returned None: is its `return` missing?"
    )


def test_none_may_be_an_answer():
    does = exercise(
        lambda answer: passed("") if answer() is None else not_yet(""), may_return_none=True
    )

    assert judged(does, lambda: None).passed


def test_a_value_the_judge_cannot_use_is_not_yet():
    def judge(answer):
        return passed("") if answer(1) > 0 else not_yet("")

    mine = eval("lambda x: [2] * 99")  # from another file than the judge
    verdict = judged(exercise(judge), mine)

    assert verdict.outcome == "not yet"
    assert "could not use what `<lambda>` returned, `[2, 2, 2" in verdict.message
    assert "...`: TypeError" in verdict.message
    assert len(verdict.message) < 250


def test_an_error_inside_a_run_is_still_the_learners():
    """`load.run` wraps what a strategy raises in an error of its own."""

    def judge(strategy):
        try:
            strategy()
        except BaseException as error:
            raise RuntimeError("the run failed") from BaseExceptionGroup("tasks", [error])
        return passed("")

    def mine():
        raise KeyError("x")

    assert "`mine` stopped at line" in judged(exercise(judge), mine).message
    assert judged(exercise(judge), lambda: NOT_ATTEMPTED).outcome == "not attempted"


def test_an_answer_may_be_a_coroutine_function():
    async def mine(x):
        await asyncio.sleep(0)
        return 2 * x

    does = exercise(lambda answer: passed("") if asyncio.run(answer(2)) == 4 else not_yet(""))

    assert judged(does, mine).passed


def test_an_exercise_needs_an_id_of_its_lesson_and_time():
    with pytest.raises(ValueError, match=r"such as 00\.utilisation"):
        dataclasses.replace(exercise(doubles), id="utilisation")
    with pytest.raises(ValueError, match="timeout_s must be more than 0"):
        exercise(doubles, timeout_s=0)


def test_a_number_in_quotes_is_no_number():
    verdict = judged(exercise(doubles), lambda x: str(2 * x))

    assert verdict.message == (
        "`<lambda>` returned the text `'4'`: return a value that is not text, without quotes or"
        " `str`."
    )
    words = exercise(lambda answer: passed(answer(2)), may_return_text=True)
    assert judged(words, lambda x: str(2 * x)).message == "4"


def test_a_value_in_place_of_a_function_gets_a_clear_message():
    for answer in (5, "my_bounded", [1]):
        verdict = judged(find("03.bounded"), answer)
        assert ("not yet", True) == (verdict.outcome, "without parentheses" in verdict.message)
        assert repr(answer) in verdict.message


def test_a_right_answer_is_passed_and_remembered(page):
    verdict = check("00.utilisation", find("00.utilisation").reference)

    assert verdict.passed
    assert "✔ Passed." in page[-1]["text/plain"]
    assert page[-1][exercises.MIME_TYPE]["exercise_id"] == "00.utilisation"
    assert progress.by_lesson().loc["00", "exercises passed"] == "1 of 1"


def test_each_hint_goes_one_step_further_up_to_the_last(page):
    count = len(find("00.utilisation").hints)
    for _ in range(count + 1):
        hint("00.utilisation")

    steps = [bundle["text/plain"].split(".")[0] for bundle in page]
    assert [f"Hint {min(n, count)} of {count}" for n in range(1, count + 2)] == steps
    assert 'solution("00.utilisation")' in page[-1]["text/plain"]


def test_the_solution_is_the_source_that_passes_and_is_noted(page):
    solution("00.utilisation")

    assert "calls_per_s * cpu_us_per_call / 1e6" in page[-1]["text/markdown"]
    assert progress.by_lesson().loc["00", "solutions seen"] == 1


@pytest.mark.parametrize("made", [np.int64(4), np.array([4]), iter([4])])
def test_a_result_of_numpy_and_an_iterator_are_their_values(made):
    seen = []

    def judge(answer):
        seen.append(answer())
        return passed("")

    assert judged(exercise(judge), lambda: made).passed
    assert seen in ([4], [[4]])
    assert type(seen[0]) in (int, float, list)


def test_a_counterexample_names_the_arguments():
    verdict = judged(find("00.utilisation"), lambda calls, cpu: calls)

    assert "calls_per_s=" in verdict.message or "µs each" in verdict.message
    assert "kb_per_call=" in judged(find("02.seconds_until_full"), lambda *given: 1.0).message
