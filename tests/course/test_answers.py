"""Answers that were tried on the judges get their verdicts, in the process that judges learners."""

import answers
import cloudpickle
import pytest

from kvstore.course import judging

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def answers_travel_as_from_a_notebook():
    cloudpickle.register_pickle_by_value(answers)
    yield
    cloudpickle.unregister_pickle_by_value(answers)


@pytest.mark.parametrize(("exercise", "answer", "outcome", "said"), answers.ANSWERS)
def test_an_answer_gets_its_verdict(exercise, answer, outcome, said):
    verdict = judging.judge(exercise, answer)

    assert verdict.outcome == outcome, verdict.message
    assert said in verdict.message
