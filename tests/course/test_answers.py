"""Answers that were tried on the judges get their verdicts, in the process that judges learners.

The mutants come from `tools/mutants.py`.
"""

import json
from pathlib import Path

import answers
import cloudpickle
import pytest
import verdicts
import wrong_answers

from kvstore.course import judging
from kvstore.course.exercises import find
from kvstore.course.exercises.grading import judged
from tools import mutants

MUTANTS = json.loads((Path(__file__).parent / "mutants.json").read_text("utf-8"))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def answers_travel_as_from_a_notebook():
    for module in (answers, wrong_answers):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (answers, wrong_answers):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize(("exercise", "answer", "outcome", "said"), verdicts.ANSWERS)
def test_an_answer_gets_its_verdict(exercise, answer, outcome, said):
    verdict = judging.judge(exercise, answer)

    assert verdict.outcome == outcome, verdict.message
    assert said in verdict.message


@pytest.mark.parametrize(
    ("exercise", "source"), [(name, each) for name, kept in MUTANTS.items() for each in kept]
)
def test_a_mutant_of_the_reference_is_rejected(exercise, source):
    answer = mutants.answer_from(find(exercise), source)

    assert judged(find(exercise), answer).outcome == "not yet", source
