"""Every further lesson runs from top to bottom as it is, and its claims hold.

All of them run in one kernel, one after the other: starting a kernel and its imports takes longer
than most of these lessons. They run when the other tests are done (`ALONE` in side_by_side.py).
A short run is sometimes judged at a bad moment, so a claim must hold in one of `TRIES` runs. A
claim that the code contradicts holds in none of them.
"""

import pytest
from lessons import NOTEBOOKS
from test_notebooks import alt_text_of, figures_of, problems_of

from kvstore.course.run_notebooks import OneKernel

TRIES = 3

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cores_awake")]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_MODE", "fast")
        patch.setenv("COURSE_PROGRESS", str(tmp_path_factory.mktemp("further") / "progress.sqlite"))
        with OneKernel() as kernel:
            yield kernel


@pytest.mark.parametrize(
    "path",
    [path for path in NOTEBOOKS if path.parent.name == "further"],
    ids=lambda path: path.stem,
)
def test_an_untouched_further_lesson_runs_and_its_claims_hold(path, kernel):
    unproven = None
    for _ in range(TRIES):
        done = kernel.execute(path, timeout_s=120)

        assert done.error is None
        assert len(done.claims) >= 1
        assert len(figures_of(done.notebook)) >= 1
        assert [] == [each for each in figures_of(done.notebook) if not alt_text_of(each)]
        assert [] == problems_of(done.notebook)
        broken = {place for place, claim in enumerate(done.claims) if not claim.holds}
        unproven = broken if unproven is None else unproven & broken
        if not unproven:
            return
    assert [] == [done.claims[place].sentence for place in sorted(unproven)]
