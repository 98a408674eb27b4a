import math

import numpy as np
import pytest

from kvstore.course import (
    again,
    check,
    compare,
    comparisons,
    hint,
    predict,
    progress,
    quiz,
    solution,
)
from kvstore.course.predictions import PredictionError
from kvstore.model import Prediction

pytestmark = pytest.mark.usefixtures("lesson_97")


@pytest.mark.parametrize("value", [25.0, np.int64(25)])
def test_a_number_of_any_kind_is_kept(page, value):
    guess = predict("97.plain", value)

    assert (guess.value, guess.status) == (25.0, "kept")
    assert progress.ask("97.plain").value == 25.0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("25/s", "without quotes and without a unit"),
        (True, "got True"),
        ((2, 450, 3), "a comma makes several"),
        ((60, 40), "from its lower to its upper end"),
        ((0, 40), "choose a small number rather than 0"),
        ([25], "write a number such as 12.5"),
        (math.nan, "must be a finite number of calls/s, got nan"),
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


def test_an_interval_is_kept_scored_by_its_middle_and_counted(page):
    guess = predict("97.plain", (40, 90))
    assert guess.value == pytest.approx(60)
    assert "40 to 90 calls/s" in page[-1]["text/plain"]
    assert "40 to 90 calls/s" in predict("97.plain").message
    made = compare("97.plain", 45.0)

    assert made.log_error == pytest.approx(abs(math.log10(60 / 45)))
    assert made.sure_of == (40, 90)
    assert "Your interval, 40 to 90, holds 45." in page[-1]["text/plain"]
    assert predict("97.plain", (40, 90)).status == "unchanged"
    assert predict("97.plain", (40, 91)).status == "refused"

    for question in ("97.operations", "97.main"):
        predict(question, (10, 20))
        compare(question, 100.0)
    assert "1 of your 3 intervals held" in page[-1]["text/html"]
    assert [each.held for each in progress.questions()] == [False, False, True]


def test_who_is_surer_than_they_may_be_is_told_so():
    def made(held, of):
        return [
            progress.Question("97.q", measured=15 if n < held else 99, interval=(10, 20))
            for n in range(of)
        ]

    assert "wider" in comparisons.coverage(made(5, 12))
    assert "wider" not in comparisons.coverage(made(10, 12))
    assert "9 of your 12 intervals held" in comparisons.coverage(made(9, 12))
    assert comparisons.coverage(made(1, 1)) == ""


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


def test_a_share_is_a_number_up_to_1_and_a_percentage_says_so(page):
    with pytest.raises(PredictionError, match=r"from 0 to 1, got 20: write 0\.2"):
        predict("97.share", 20)
    assert "123" not in predict("97.share").message
    assert predict("97.share", 1).value == 1.0


DO = {"predict": predict, "compare": compare, "again": again, "close": progress.close}


@pytest.mark.parametrize(
    ("before", "given", "status", "value", "attempts", "said"),
    [
        ("predict 20", None, "unchanged", 20, 1, "it is kept"),
        ("predict 20, again", 25, "kept", 25, 1, "25 calls/s"),
        ("compare 24", 24, "refused", None, 1, 'again("97.plain")'),
        ("close", 24, "refused", None, 1, "it counts as not predicted"),
        ("predict 20, compare 24", 24, "refused", 20, 1, "your earlier 20 calls/s stands"),
        ("predict 20, compare 24, again", 25, "kept", 25, 2, "25 calls/s"),
    ],
)
def test_a_prediction_can_change_until_its_run_and_in_a_fresh_attempt(
    page, before, given, status, value, attempts, said
):
    for step in before.split(", "):
        verb, *number = step.split()
        DO[verb]("97.plain", *map(float, number))
    guess = predict("97.plain", given)
    made = compare("97.plain", 23.0)

    assert (status, value) == (guess.status, guess.value)
    assert said in guess.message
    assert (value, attempts) == (made.yours, made.attempt)
    assert attempts == len(progress.questions())
