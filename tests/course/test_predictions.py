import math

import numpy as np
import pytest

from kvstore.course import again, check, compare, hint, predict, progress, quiz, solution
from kvstore.course.predictions import PredictionError
from kvstore.model import Prediction

pytestmark = pytest.mark.usefixtures("lesson_97")


def test_none_says_how_to_predict_and_lets_the_notebook_go_on(page):
    guess = predict("97.plain", None)

    assert (guess.value, guess.status) == (None, "not predicted")
    assert '`predict("97.plain", 123)`' in page[-1]["text/plain"]


@pytest.mark.parametrize("value", [25, 25.0, np.float64(25), np.int64(25)])
def test_a_number_of_any_kind_is_kept(page, value):
    guess = predict("97.plain", value)

    assert (guess.value, guess.status) == (25.0, "kept")
    assert progress.ask("97.plain").value == 25.0


def test_a_prediction_of_the_model_is_kept_as_its_number(page):
    assert predict("97.plain", Prediction(25.0, "calls/s", "1 / 40 ms")).value == 25.0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("25/s", "without quotes and without a unit"),
        ("25", "without quotes"),
        (True, "got True"),
        (10**400, "finite number of calls/s, got one of hundreds of digits"),
        ((2, 450), "a comma makes several"),
        ([25], "write a number such as 12.5"),
        (25j, "write a number such as 12.5"),
        (math.nan, "must be a finite number of calls/s, got nan"),
        (math.inf, "must be a finite number"),
        (-3, "must be more than 0 calls/s, got -3"),
        (0, "choose a small number rather than 0"),
        (Prediction(0.04, "s", ""), "asks for calls/s, but the prediction is in s"),
    ],
)
def test_what_is_no_number_is_refused_with_the_next_step(page, value, said):
    with pytest.raises(PredictionError, match=said):
        predict("97.plain", value)

    assert progress.ask("97.plain").value is None


@pytest.mark.parametrize(
    ("typed", "said"), [((2, 450), "`2450` for thousands"), ((1, 5), r"`1\.5` for a decimal")]
)
def test_a_comma_is_explained_and_nothing_is_committed(page, typed, said):
    with pytest.raises(PredictionError, match=said):
        predict("97.plain", *typed)

    assert progress.ask("97.plain").value is None


@pytest.mark.parametrize("use", [predict, compare, again])
def test_a_misspelt_name_is_refused_with_the_nearest_and_makes_no_question(page, use):
    with pytest.raises(LookupError, match=r"no question '97\.plian': did you mean 97\.plain"):
        use("97.plian")

    assert progress.questions() == ()


@pytest.mark.parametrize("use", [predict, compare, again, quiz, check, hint, solution])
def test_what_is_no_name_is_met_with_a_sentence(page, use):
    arguments = (len,) if use is check else ()
    with pytest.raises(TypeError, match=r"in quotes, such as .*got 5"):
        use(5, *arguments)


def test_before_the_run_the_learner_may_think_again(page):
    predict("97.plain", 20)

    assert (predict("97.plain", 25).status, progress.ask("97.plain").value) == ("kept", 25.0)


def test_after_the_result_a_first_prediction_is_refused_without_an_error(page):
    compare("97.plain", 24.0)
    guess = predict("97.plain", 24)

    assert (guess.status, guess.value) == ("refused", None)
    assert 'again("97.plain")' in page[-1]["text/plain"]
    assert not compare("97.plain", 24.0).predicted


def test_a_share_is_a_number_up_to_1_and_a_percentage_says_so(page):
    with pytest.raises(PredictionError, match=r"from 0 to 1, got 20: write 0\.2"):
        predict("97.share", 20)
    assert "123" not in predict("97.share").message
    assert predict("97.share", 1).value == 1.0


def test_after_the_result_another_number_is_refused_and_the_first_stands(page):
    predict("97.plain", 20)
    compare("97.plain", 24.0)
    guess = predict("97.plain", 24)

    assert (guess.status, guess.value) == ("refused", 20.0)
    assert "your earlier 20 calls/s stands" in page[-1]["text/plain"]


def test_running_a_finished_notebook_again_changes_nothing(page):
    predict("97.plain", 20)
    compare("97.plain", 24.0)

    assert predict("97.plain", 20).status == "unchanged"
    assert compare("97.plain", 23.0).yours == 20.0


def test_a_cell_set_back_to_none_keeps_what_was_committed(page):
    predict("97.plain", 20)

    assert predict("97.plain", None).value == 20.0


def test_once_the_run_has_begun_it_is_too_late(page):
    progress.close("97.plain")

    assert predict("97.plain", 24).status == "refused"


def test_a_fresh_attempt_is_kept_beside_the_first(page):
    predict("97.plain", 20)
    compare("97.plain", 25.0)
    again("97.plain")

    assert predict("97.plain", 25).status == "kept"
    assert compare("97.plain", 25.0).attempt == 2
    assert [question.value for question in progress.questions()] == [20.0, 25.0]


def test_an_open_question_needs_no_fresh_attempt(page):
    predict("97.plain", 20)
    again("97.plain")

    assert [question.attempt for question in progress.questions()] == [1]
