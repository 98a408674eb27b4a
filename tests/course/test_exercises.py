"""Every exercise of every lesson keeps the same promises."""

import pytest

from kvstore.course import NOT_ATTEMPTED, exercises
from kvstore.course.exercises.grading import judged

EVERY = exercises.every()
WRONG = [
    pytest.param(exercise, wrong, id=f"{exercise.id}-{number}")
    for exercise in EVERY.values()
    for number, wrong in enumerate(exercise.wrong, start=1)
]


@pytest.mark.parametrize("exercise", EVERY.values(), ids=EVERY)
def test_the_reference_solution_passes(exercise):
    verdict = judged(exercise, exercise.reference)

    assert verdict.outcome == "passed", verdict.message


@pytest.mark.parametrize(("exercise", "wrong"), WRONG)
def test_a_known_wrong_answer_is_rejected_for_its_own_reason(exercise, wrong):
    verdict = judged(exercise, wrong.answer)

    assert verdict.outcome == "not yet"
    assert wrong.expected in verdict.message


@pytest.mark.parametrize("exercise", EVERY.values(), ids=EVERY)
def test_three_or_more_wrong_answers_are_told_apart(exercise):
    reasons = [wrong.expected for wrong in exercise.wrong]

    assert len(reasons) >= 3
    assert len(reasons) == len(set(reasons))
    assert not any(a in b for a in reasons for b in reasons if a is not b)


@pytest.mark.parametrize("exercise", EVERY.values(), ids=EVERY)
def test_a_stub_is_not_attempted(exercise):
    assert judged(exercise, NOT_ATTEMPTED).outcome == "not attempted"
    if callable(exercise.reference):
        stub = lambda *arguments, **named: NOT_ATTEMPTED  # noqa: E731
        assert judged(exercise, stub).outcome == "not attempted"


@pytest.mark.parametrize("exercise", EVERY.values(), ids=EVERY)
def test_there_is_help(exercise):
    assert exercise.title
    assert exercise.hints
    assert all(exercise.hints)


def test_there_are_exercises_and_each_stands_under_its_id():
    assert "00.utilisation" in EVERY
    assert all(name == exercise.id for name, exercise in EVERY.items())


def test_an_unknown_id_is_met_with_the_nearest_ones():
    with pytest.raises(LookupError, match=r"did you mean .*00\.utilisation"):
        exercises.find("00.utilization")
