"""A claim says whether it holds."""

import numpy as np
import pytest

from kvstore.course import claim, comparisons


def test_a_claim_says_whether_it_holds_and_counts_as_that(page):
    for holds, words in ((True, "✔ holds here"), (False, "✘ does not hold")):
        assert holds == bool(claim("x < 3", holds))
        forms = [page[-1][f"text/{form}"] for form in ("plain", "html", "markdown")]
        assert all(words in form for form in forms)


def test_programs_can_read_a_claim(page):
    claim("x < 3", np.bool_(True))

    assert page[-1][comparisons.CLAIM_MIME_TYPE] == {"sentence": "x < 3", "holds": True}
    assert bool is type(page[-1][comparisons.CLAIM_MIME_TYPE]["holds"])


def test_a_claim_needs_a_decision(page):
    with pytest.raises(TypeError, match="True or False, got float"):
        claim("it is fast", 0.97)
