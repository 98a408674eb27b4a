"""Lesson 01: the models of its questions."""

import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_01 import questions


def test_the_model_of_the_mix_is_built_from_the_mix_that_was_sent_and_the_round_trip():
    reads = run_of([(0.0, 0.012, "retrieve"), (0.012, 0.024, "retrieve")])
    mixed = run_of([(0.0, 0.052, "create"), (0.052, 0.064, "retrieve")])

    assert questions.round_trip_s(reads) == pytest.approx(0.002)
    assert questions.of_mix(reads, mixed).value == pytest.approx(1 / (0.030 + 0.002))
