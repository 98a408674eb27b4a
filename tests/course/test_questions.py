import dataclasses
import re

import made_runs
import nbformat
import pytest

from kvstore.course import compare, lessons, predict, progress, questions, quiz
from kvstore.course.questions import (
    Camp,
    Option,
    PredictionQuestion,
    QuizQuestion,
    number_question,
)
from kvstore.model import Prediction
from tools.run_notebooks import execute

RUN = dataclasses.replace(
    made_runs.run_of([(0.0, 0.5, "retrieve"), (0.5, 1.0, "create")]),
    started_at="2999-01-01T12:00:00+00:00",
)
pytestmark = pytest.mark.usefixtures("lesson_97")


def test_predict_shows_what_is_asked_and_how_to_commit(page):
    assert predict("97.rate").status == "not predicted"

    text = page[-1]["text/plain"]
    assert "How many calls per second?" in text
    assert '`predict("97.rate", 123)`' in text
    assert "calls/s" in text


def test_the_unit_comes_from_the_question(page):
    assert predict("97.wait", 40).unit == "ms"
    assert predict("97.wait", Prediction(0.04, "s", "")).value == 40.0


def test_the_question_says_how_a_run_answers_it(page):
    predict("97.rate", 3)
    made = compare("97.rate", RUN)

    assert (made.measured, made.model, made.yours) == (2.0, 2.0, 3.0)
    assert made.reason == "two a second"


def test_the_model_is_evaluated_only_when_the_question_is_closed(page, lesson_97, monkeypatch):
    closed = []
    predict("97.wait")
    predict("97.wait", 45)
    assert lesson_97.EVALUATED == []

    original = progress.settle

    def settle(*given, **named):
        closed.append(len(lesson_97.EVALUATED))
        return original(*given, **named)

    monkeypatch.setattr(progress, "settle", settle)
    made = compare("97.wait", RUN)

    assert closed == [0]
    assert len(lesson_97.EVALUATED) == 1
    assert (made.model, made.measured) == (40.0, 50.0)
    assert predict("97.wait", 50).status == "refused"


def test_a_question_that_needs_two_runs_is_given_both(page):
    assert compare("97.gain", [1], [1, 2, 3]).measured == 3.0


def test_a_run_that_does_not_fit_leaves_the_question_open(page):
    with pytest.raises(TypeError, match=r"`97\.rate` is answered by the runs.*got object"):
        compare("97.rate", object())

    assert not progress.ask("97.rate").closed


def shown(page):
    return page[-1]["text/plain"] + page[-1]["text/html"]


def test_a_quiz_shows_its_questions_and_no_answer(page):
    quiz("97")

    text = page[-1]["text/plain"]
    assert text.index("half the time") < text.index("Twice the cores?")
    assert '`quiz("97.double", "a")`' in text
    assert not [why for why in ("at most", "bottleneck", "busy", "Idle", "✔") if why in shown(page)]


def letter_of(page, question_id, text):
    """The letter that this learner sees before an option."""
    quiz(question_id)
    (letter,) = re.findall(rf"^  (\w)\) {re.escape(text)}$", page[-1]["text/plain"], re.MULTILINE)
    return letter


def test_each_choice_is_explained_and_the_first_one_counts(page):
    wrong = letter_of(page, "97.double", "the same")
    right = letter_of(page, "97.double", "twice as high")
    other = letter_of(page, "97.cores", "no change")
    quiz("97.double", wrong)
    assert f"✘ No. {wrong}) The lock was the bottleneck." in shown(page)
    quiz("97.double", right)
    assert f"✔ Yes. {right}) X is at most 1/S. (Your first choice, {wrong}, is the one" in shown(
        page
    )
    quiz("97.cores", f" {other.upper()}")

    assert progress.choices() == {"97.double": "a", "97.cores": "a"}
    assert progress.by_lesson().loc["97", "quiz right at first"] == "1 of 2"
    quiz("97")
    assert f"✘ No. {wrong}) The lock" in shown(page)


def test_learners_see_the_options_in_orders_of_their_own_and_their_choices_add_up(
    page, tmp_path, monkeypatch
):
    """Thirty learners choose the same option: they type different letters, one is kept."""
    typed, kept = set(), set()
    for number in range(30):
        monkeypatch.setenv(progress.VARIABLE, str(tmp_path / f"learner {number}"))
        letter = letter_of(page, "97.double", "twice as high")
        assert letter == letter_of(page, "97.double", "twice as high"), "the order is stable"
        quiz("97.double", letter)
        typed.add(letter)
        kept |= set(progress.choices().items())

    assert typed == {"a", "b"}
    assert kept == {("97.double", "b")}


def test_a_number_answers_a_question_that_has_parameters_of_each_learner(
    page, tmp_path, monkeypatch
):
    texts, kept = set(), set()
    for number in range(10):
        monkeypatch.setenv(progress.VARIABLE, str(tmp_path / f"learner {number}"))
        quiz("01.hundred")
        texts.add(text := page[-1]["text/plain"])
        keys, read_ms, write_ms = (int(each) for each in re.findall(r"(\d+) (?:keys|ms)", text)[:3])
        assert " b) " not in text, "no option is shown"
        quiz("01.hundred", 1.02 * keys * (read_ms + write_ms) / 1e3)
        assert f"✔ Yes. {keys} · {read_ms} ms + {keys} · {write_ms} ms" in shown(page)
        quiz("01.hundred", str(2 * keys * write_ms / 1e3))
        assert "✘ No. That is each call at the time of the slowest kind. (Your first" in shown(page)
        kept |= set(progress.choices().items())

    assert len(texts) > 1
    assert len(kept) == 1, "the choices of a class add up"
    with pytest.raises(ValueError, match=r"answered by a number, .*'six'"):
        quiz("01.hundred", "six")


def test_a_number_question_whose_mistake_is_as_good_as_right_is_refused():
    options = ({"value": "n * n", "right": True, "why": "n²"}, {"value": "n + n", "why": "2n"})
    with pytest.raises(ValueError, match=r"as good as right for {'n': 2}"):
        number_question("97.q", "{n}?", "s", {"n": [3, 2]}, options)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("97.dubble", "a"), "no quiz question '97.dubble': did you mean 97.double"),
        (("96",), "lesson 96 has no quiz"),
        (("part 9",), "part 9 has no quiz: parts 1 to 4 have one"),
        (("97.double", "c"), "options a, b, got 'c'"),
        ((97,), "in quotes"),
    ],
)
def test_a_wrong_call_says_what_to_write(page, call, said):
    with pytest.raises((LookupError, ValueError, TypeError), match=said):
        quiz(*call)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Option("a", why="since"), "exactly one option must be right, got 0"),
        (lambda: Option("b", right=True), "every option needs `why`"),
        (lambda: Option("x", why="since"), "different options"),
    ],
)
def test_a_quiz_question_that_cannot_be_scored_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        QuizQuestion("97.q", "?", (Option("x", why="since"), make()))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[[quiz]]\nid = '96.q'\ntext = '?'\noptions = []", "quiz 96.q: 'option', see docs"),
        ("[[quiz]]\nid = '97.q'", "needs an id of its own, such as 96.name"),
        ("[[quiz]]\nid = 96.q", "lesson.toml: .*line 2"),
    ],
)
def test_a_file_with_a_mistake_names_the_place(tmp_path, monkeypatch, table, said):
    (tmp_path / "lesson_96").mkdir()
    (tmp_path / "lesson_96" / "lesson.toml").write_text(table)
    monkeypatch.setattr(lessons, "__path__", [str(tmp_path)])
    with pytest.raises(ValueError, match=said):
        questions.quiz_of("96")


@pytest.mark.parametrize("camp", [Camp(0, "nothing"), Camp(1), Camp("flat", lacks="a shape")])
def test_a_camp_that_nobody_can_be_in_is_refused(camp):
    with pytest.raises(ValueError, match="a camp is a number above 0"):
        PredictionQuestion("97.q", camps=(camp,))


def test_a_main_comparison_needs_a_model():
    with pytest.raises(ValueError, match="needs `model`"):
        PredictionQuestion("97.q", model=None, main=True)


def test_the_quiz_of_a_part_is_kept_and_scored_with_its_last_lesson(page):
    quiz("part 1")
    first, second, *_ = questions.asked("part 1")
    assert page[-1]["text/plain"].index(first.text) < page[-1]["text/plain"].index(second.text)

    for question, right in ((first, True), (second, False)):
        option = next(each for each in question.options if each.right == right)
        quiz(question.id, letter_of(page, question.id, option.text))

    assert progress.by_lesson().loc["01", "quiz right at first"] == "1 of 2"


@pytest.mark.slow
def test_in_a_notebook_radio_buttons_ask_and_their_state_holds_no_answer(
    tmp_path, monkeypatch, repo_root
):
    """The state of the widgets is saved with the notebook: a look into the file shows nothing."""
    ask = (
        "from kvstore.course import lessons, quiz\n"
        f"lessons.__path__.append({str(tmp_path)!r})\nquiz('97')"
    )
    choose = (
        "import ipywidgets as w\n"
        "made = [each for each in w.Widget.widgets.values() if isinstance(each, w.RadioButtons)]\n"
        "made[0].value = 'a'\n"
        "print([each.value for each in w.Widget.widgets.values() if isinstance(each, w.HTML)])"
    )
    monkeypatch.setenv("PYTHONPATH", str(repo_root))

    def executed(*sources):
        notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
        nbformat.write(notebook, tmp_path / "copy.ipynb")
        done = execute(tmp_path / "copy.ipynb")
        assert done.error is None
        return done.notebook

    before = executed(ask)
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} == set(
        before.cells[0].outputs[0].data
    )
    assert "twice as high" in str(before.metadata.widgets)
    reasons = ("at most 1/S", "was the bottleneck", "None was busy", "Idle")
    assert not [why for why in reasons if why in str(before)]
    after = executed(ask, choose).cells[1].outputs[0].text
    assert any(why in after for why in reasons[:2])  # the options are in the learner's own order
