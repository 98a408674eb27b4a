import numpy as np
import pytest

from kvstore.course import claim, comparisons
from kvstore.course.exercises import Verdict


def test_a_claim_says_whether_it_holds_and_counts_as_that(page):
    for holds, words in ((True, "✔ holds here"), (False, "✘ does not hold")):
        assert holds == bool(claim("x < 3", holds))
        forms = [page[-1][f"text/{form}"] for form in ("plain", "html", "markdown")]
        assert all(words in form for form in forms)


def test_programs_can_read_a_claim(page):
    claim("x < 3", np.bool_(True))

    assert page[-1][comparisons.CLAIM_MIME_TYPE] == {"sentence": "x < 3", "holds": True}
    assert bool is type(page[-1][comparisons.CLAIM_MIME_TYPE]["holds"])


def test_the_sentence_is_text_and_not_markup(page):
    claim("<b>bold</b> * $x$", True)

    assert "<b>bold" not in page[-1]["text/html"]
    assert r"\<b\>bold" in page[-1]["text/markdown"]


def test_a_claim_needs_a_decision(page):
    with pytest.raises(TypeError, match="True or False, got float"):
        claim("it is fast", 0.97)


def test_green_stands_for_what_holds_and_orange_for_what_does_not(page):
    claim("x < 3", True)
    claim("x > 3", False)
    for outcome in ("passed", "not yet"):
        Verdict(outcome, "so")._show()
    greens = ["#009e73" in bundle["text/html"] for bundle in page]
    oranges = ["#d55e00" in bundle["text/html"] for bundle in page]

    assert greens == [True, False, True, False]
    assert oranges == [False, True, False, True]


def test_a_percent_sign_stands_apart_as_in_all_other_numbers(page):
    claim(f"{0.98:.0%} wait, and 8 % do not", True)

    assert "98 % wait, and 8 % do not" in page[-1]["text/plain"]
