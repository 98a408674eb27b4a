"""Every exercise of every lesson keeps the same promises."""

import answers  # noqa: F401 - it fills the table
import pytest
from verdicts import known_wrong

from kvstore.course import NOT_ATTEMPTED, exercises
from kvstore.course.exercises.grading import judged

EVERY = exercises.every()

each_exercise = pytest.mark.parametrize("name", EVERY)


@each_exercise
def test_the_reference_solution_passes(name):
    verdict = judged(EVERY[name], EVERY[name].reference)

    assert verdict.outcome == "passed", verdict.message


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lesson", sorted({name[:2] for name in EVERY}))
def test_a_known_wrong_answer_is_rejected_for_its_own_reason(lesson):
    accepted_or_for_another = {}
    for name in (each for each in EVERY if each.startswith(lesson)):
        for number, wrong in enumerate(known_wrong(name)):
            verdict = judged(EVERY[name], wrong.answer)
            if verdict.outcome != "not yet" or wrong.expected not in verdict.message:
                accepted_or_for_another[name, number] = verdict.message

    assert accepted_or_for_another == {}


@each_exercise
def test_three_or_more_wrong_answers_are_told_apart(name):
    reasons = [wrong.expected for wrong in known_wrong(name)]

    assert len(reasons) >= 3
    assert len(reasons) == len(set(reasons))
    assert not any(a in b for a in reasons for b in reasons if a is not b)


@each_exercise
def test_a_stub_is_not_attempted(name):
    assert judged(EVERY[name], NOT_ATTEMPTED).outcome == "not attempted"
    if callable(EVERY[name].reference):
        stub = lambda *arguments, **named: NOT_ATTEMPTED  # noqa: E731
        assert judged(EVERY[name], stub).outcome == "not attempted"


@each_exercise
def test_there_is_help(name):
    assert EVERY[name].title
    assert EVERY[name].hints
    assert all(EVERY[name].hints)


def test_there_are_exercises_and_each_stands_under_its_id():
    assert "00.utilisation" in EVERY
    assert all(name == exercise.id for name, exercise in EVERY.items())


def test_an_unknown_id_is_met_with_the_nearest_ones():
    with pytest.raises(LookupError, match=r"did you mean .*00\.utilisation"):
        exercises.find("00.utilization")
