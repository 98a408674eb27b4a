"""Lesson 11: the models of its questions."""

import numpy as np
import pytest

from kvstore.course.lessons.lesson_11 import hedging, questions


def test_the_models_of_the_questions():
    p99 = questions.stall_p99()
    low, high = p99.interval

    assert p99.value == pytest.approx(0.365)
    assert low < p99.value < high


def test_a_copy_that_waits_when_its_read_has_ended_never_runs():
    """One worker each; the drawn replica is the same for both reads or another one."""
    rng = np.random.default_rng(1)
    reads = hedging.hedged_reads([0.0] * 8, lambda: 1.0, 0.5, rng, workers=4)

    assert 8 <= reads.began <= 16
    assert reads.hedged == 8
    alone = hedging.hedged_reads([0.0, 5.0], lambda: 1.0, 2.0, rng, replicas=1)
    assert (2, 0, [1.0, 1.0]) == (alone.began, alone.hedged, alone.took_s.tolist())
