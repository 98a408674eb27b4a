import pytest

from kvstore.course import lessons, progress, rendering
from kvstore.course.lessons import plot_calibration

pytestmark = pytest.mark.usefixtures("no_windows")


def test_every_scored_prediction_of_every_lesson_is_a_dot(monkeypatch):
    for name, value, measured, error in [
        ("01.mix", 25.0, 20.0, 0.1),
        ("01.reads", 0.5, 1.0, 0.3),
        ("03.lock", 2500.0, 25.0, 2.0),
    ]:
        progress.keep_prediction(name, value, "calls/s")
        progress.reveal(name, measured, error)
    progress.reveal("02.never_predicted", 7.0, None)

    said = rendering.described(plot_calibration(progress.questions()).figure)

    assert "lesson 01: 2 dots at (20, 25), (1, 0.5)" in said
    assert "lesson 03: 1 dot at (25, 2,500)" in said
    assert "lesson 02" not in said


def test_the_overview_draws_only_what_was_scored():
    import matplotlib.pyplot as plt

    progress.keep_prediction("01.mix", 25.0, "calls/s")
    assert len(lessons.overview()) == 1
    assert plt.get_fignums() == []

    progress.reveal("01.mix", 20.0, 0.1)
    assert list(lessons.overview().index) == ["01"]
    assert len(plt.get_fignums()) == 1


def test_nothing_scored_is_no_figure():
    with pytest.raises(ValueError, match="predict, run and compare first"):
        plot_calibration([])
