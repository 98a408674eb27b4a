import pytest

from kvstore.course import lessons, progress

pytestmark = pytest.mark.usefixtures("no_windows")


def test_the_overview_draws_only_what_was_scored():
    import matplotlib.pyplot as plt

    progress.keep_prediction("01.mix", 25.0, "calls/s")
    assert len(lessons.overview()) == 1
    assert plt.get_fignums() == []

    progress.settle("01.mix", 20.0, lambda *_: 0.1)
    assert list(lessons.overview().index) == ["01"]
    assert len(plt.get_fignums()) == 1
