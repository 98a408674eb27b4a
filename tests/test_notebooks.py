"""Every lesson runs from top to bottom as it is, and shows what it promises.

They share a kernel in each process of the tests; tests/test_browser.py has lessons in kernels of
their own, as a learner has them. What the lessons measure is judged again at the end, alone.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
from lessons import NOTEBOOKS, texts_of

from kvstore.course import exercises, questions
from kvstore.course.progress import lesson_of
from tools.run_notebooks import one_kernel

FOLDER = Path(__file__).parent.parent / "notebooks"
TRIES = {"core": 2, "further": 4}
"""Runs of a lesson alone, when a claim did not hold while other tests ran beside it.

"Alone" is what this process can see to: on a busy machine, other programs disturb these runs too.
"""

NEEDS = {
    "06_what_python_costs": ("go",),
}
"""Programs of which a lesson needs one. Without it, the lesson says how to install it."""

WAITS = {"15_a_service_a_day"}
"""Lessons that run nothing before the learner has predicted."""

QUIET = {"08_why_80_percent_busy_is_slow"}
"""Lessons that compare waiting times with a law: beside other tests a claim mostly breaks."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kernel():
    """One kernel for many lessons: to start one and to import takes longer than most lessons."""
    with one_kernel() as execute_in_it:
        yield execute_in_it


@pytest.fixture
def run(request, tmp_path, monkeypatch):
    """Execute a lesson in the fast mode and return what came of it; what it shows is complete."""

    def run(path):
        programs = NEEDS.get(path.stem, ())
        if programs and not any(map(shutil.which, programs)):
            pytest.skip(f"{path.stem} needs {' or '.join(programs)}")
        monkeypatch.setenv("COURSE_MODE", "fast")
        monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.sqlite"))
        done = request.getfixturevalue("kernel")(path, timeout_s=300)

        assert done.error is None
        if path.stem in WAITS:
            return done
        assert len(done.claims) >= 1
        assert path.parent.name == "further" or len(done.agreements) >= 1
        figures = figures_of(done.notebook)
        assert len(figures) >= 1
        assert [] == [each for each in figures if not alt_text_of(each)]
        assert [] == problems_of(done.notebook)
        return done

    return run


def broken_claims_of(done):
    return {place: claim.sentence for place, claim in enumerate(done.claims) if not claim.holds}


@pytest.fixture
def broken_beside_others(pytestconfig):
    """A folder that all processes share: the claims that did not hold beside other tests."""
    folder = pytestconfig.rootpath / ".pytest_cache" / "broken_claims"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


EACH = [
    pytest.param(
        path,
        marks=[pytest.mark.xdist_group(path.stem)]
        + [pytest.mark.long] * (path.parent.name == "further")
        + [pytest.mark.alone] * (path.stem in QUIET),
    )
    for path in NOTEBOOKS
]
each_lesson = pytest.mark.parametrize("path", EACH, ids=lambda path: path.stem)


@each_lesson
@pytest.mark.timeout(400)
def test_an_untouched_lesson_runs(path, run, broken_beside_others):
    done = run(path)

    (broken_beside_others / path.stem).write_text(json.dumps(sorted(broken_claims_of(done))))
    targets = [line for line in texts_of(done).splitlines() if line.startswith("Target of ")]
    assert [
        each for each in targets if "by the course's" not in each
    ] == []  # it says whose code ran


@each_lesson
@pytest.mark.alone
@pytest.mark.timeout(1000)
def test_the_claims_of_a_lesson_hold(path, run, broken_beside_others, request):
    """Each claim holds in the run beside other tests, or in one of `TRIES` runs alone.

    A short run is sometimes judged at a bad moment. A claim that the code contradicts holds never.
    """
    seen = broken_beside_others / path.stem
    places = json.loads(seen.read_text()) if seen.is_file() else None
    seen.unlink(missing_ok=True)  # it holds for one run of the tests
    for _ in range(TRIES["further" if path.parent.name == "further" else "core"]):
        if places == []:
            break
        broken = broken_claims_of(run(path))
        places = [place for place in broken if places is None or place in places]

    assert [] == [broken[place] for place in places]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_what_running_a_lesson_does_not_show(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    for cell in cells:
        source = "".join(cell["source"])
        # One tolerated error hides every other error of the cell.
        assert not {"raises-exception", "skip-execution"} & set(cell["metadata"].get("tags", ()))
        # In a formula, two backslashes before a word begin a new line, and the word is shown.
        assert cell["cell_type"] == "code" or not re.search(r"\\\\[a-z]+", source), cell["id"]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_links_between_lessons_lead_somewhere_in_the_learners_copies_too(path):
    """A learner's folder holds the notebooks as they lie here, and nothing else of the checkout."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    targets = re.findall(r"\]\((?!https?:|#|attachment:)([^)\s#]+)", text)

    linked = [(path.parent / target).resolve() for target in targets]
    assert [] == [str(each) for each in linked if each not in NOTEBOOKS]


def test_every_further_lesson_is_linked_from_a_core_lesson_and_back():
    core = [path for path in NOTEBOOKS if path.parent == FOLDER]
    text = "\n".join(path.read_text("utf-8") for path in core)

    for path in NOTEBOOKS:
        if path not in core:
            assert f"(further/{path.name})" in text, f"no core lesson links to {path.stem}"
            assert "](../" in path.read_text("utf-8"), f"{path.stem} links to no core lesson"


def alt_text_of(figure):
    return figure["metadata"].get("image/png", {}).get("alt", "").strip()


def figures_of(notebook):
    return [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]


def problems_of(notebook):
    """Errors, and anything written to standard error: a warning a student would trip over."""
    return [
        output.get("text", output.get("evalue"))
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_lesson_asks_and_checks_what_is_registered(path):
    """A question with a typing error in its id would be a new one, in calls/s."""
    text = path.read_text("utf-8")
    asked = set(re.findall(r'\b(?:predict|compare)\(\\"([\w.]+)', text))
    known = {each.id for name in asked for each in questions.predictions_of(lesson_of(name))}
    checked = set(re.findall(r'\bcheck\(\\"([\w.]+)', text))

    assert sorted(asked - known) == []
    assert sorted(checked - set(exercises.every())) == []
