"""Every exercise keeps the same promises, and its judge gives known answers their verdicts."""

import ast
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import answers
import cloudpickle
import pytest
import verdicts
from verdicts import known_wrong

from kvstore.course import NOT_ATTEMPTED, exercises, judging, lessons
from kvstore.course.exercises.grading import Drawn, judged

EVERY = exercises.every()
AT_ONCE = 4

pytestmark = pytest.mark.xdist_group("judges")  # it takes long, so it begins early
each_exercise = pytest.mark.parametrize("name", EVERY)


class Case(NamedTuple):
    exercise: str
    answer: object
    outcome: str
    said: str = ""


CASES = {
    "solution": [Case(name, verdicts.edited(name), "passed") for name in EVERY],
    "known wrong": [
        Case(name, wrong.answer, "not yet", wrong.expected)
        for name in EVERY
        for wrong in known_wrong(name)
    ],
    "right": [Case(*each, "passed") for each in verdicts.RIGHT],
}


def is_drawn(case):
    return isinstance(EVERY[case.exercise].judge, Drawn)


EACH = [
    pytest.param(case, id=f"{case.exercise}-{kind}-{number}")
    for kind, cases in CASES.items()
    for number, case in enumerate(cases)
]


@pytest.fixture(scope="module")
def verdict_on(request):
    """The verdicts of the judge's process, several at a time: a check waits most of its time.

    An answer that is judged on drawn inputs needs no process: here, the inputs are drawn once.
    """
    cloudpickle.register_pickle_by_value(answers)  # they travel as from a notebook
    # Beside other tests a check gets little of the processor; its limit is tested elsewhere.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(judging, "find", lambda name: replace(EVERY[name], timeout_s=100.0))
    of_thread, judges = threading.local(), []

    def begin():
        of_thread.judge = judging.Judge()
        judges.append(of_thread.judge)

    def judge(case):
        return of_thread.judge.verdict(case.exercise, case.answer)

    chosen = [each.callspec.params for each in request.session.items if hasattr(each, "callspec")]
    with ThreadPoolExecutor(AT_ONCE, initializer=begin) as pool:
        cases = [each["case"] for each in chosen if "case" in each]
        begun = {id(case): pool.submit(judge, case) for case in cases if not is_drawn(case)}
        yield (
            lambda case: (
                judged(EVERY[case.exercise], case.answer)
                if is_drawn(case)
                else begun[id(case)].result()
            )
        )
        pool.shutdown(cancel_futures=True)
    monkeypatch.undo()
    for each in judges:
        each.stop()
    cloudpickle.unregister_pickle_by_value(answers)


@pytest.mark.slow
@pytest.mark.parametrize("case", EACH)
def test_an_answer_gets_its_verdict(case, verdict_on):
    verdict = verdict_on(case)

    assert verdict.outcome == case.outcome, verdict.message
    assert case.said in verdict.message


@each_exercise
def test_a_stub_is_not_attempted(name):
    assert judged(EVERY[name], NOT_ATTEMPTED).outcome == "not attempted"
    stub = lambda *arguments, **named: NOT_ATTEMPTED  # noqa: E731
    assert judged(EVERY[name], stub).outcome == "not attempted"


def test_there_are_exercises_and_each_stands_under_its_id():
    assert "00.utilisation" in EVERY
    assert all(name == exercise.id for name, exercise in EVERY.items())


def test_an_unknown_id_is_met_with_the_nearest_ones():
    with pytest.raises(LookupError, match=r"did you mean .*00\.utilisation"):
        exercises.find("00.utilization")


@pytest.mark.parametrize("number", lessons.LESSONS)
def test_each_sentence_is_said_with_its_fields(number):
    file = Path(lessons.__file__).parent / f"lesson_{number}" / "lesson.toml"
    sentences = tomllib.loads(file.read_text("utf-8"))["says"].items()
    fields = {name: {f[1] for f in Formatter().parse(text) if f[1]} for name, text in sentences}

    said = {}
    for module in file.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name("say"), args=[ast.Constant(name)], keywords=values):
                    assert said.setdefault(name, given := {v.arg for v in values}) == given
    assert said == fields
