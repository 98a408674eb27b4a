"""Every lesson runs from top to bottom, and shows what it promises.

A core lesson runs once, with the references as the learner's answers; untouched, as a long test.
The lessons share a kernel in each process of the tests; tests/test_browser.py has lessons in
kernels of their own, as a learner has them.
"""

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from greeter import greeter
from lessons import NOTEBOOKS, texts_of
from solutions import KEPT, solved

from kvstore.course import exercises, questions
from kvstore.course.progress import lesson_of
from tools.run_notebooks import one_kernel

FOLDER = Path(__file__).parent.parent / "notebooks"
TRIES = {"core": 2, "further": 4}
"""Runs of a lesson in which each claim has to hold once: a short run may have a bad moment."""

NEEDS = {
    "06_what_python_costs": ("go",),
}
"""Programs of which a lesson needs one. Without it, the lesson says how to install it."""

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


CORE = [path for path in NOTEBOOKS if path.parent.name != "further"]
FURTHER = [path for path in NOTEBOOKS if path.parent.name == "further"]


def cases(paths):
    """The paths as parameters, each in a group of its own."""
    return pytest.mark.parametrize(
        "path",
        [
            pytest.param(path, id=path.stem, marks=pytest.mark.xdist_group(path.stem))
            for path in paths
        ],
    )


def check_claims(path, run, tries):
    """Hold that each claim of a lesson holds in one of these runs; return the last of them."""
    broken = None
    for _ in range(tries):
        done = run(path)
        again = broken_claims_of(done)
        broken = {place: again[place] for place in again if broken is None or place in broken}
        if not broken:
            break
    assert broken == {}
    return done


@cases(CORE)
@pytest.mark.timeout(600)
def test_a_solved_lesson_runs_the_learners_code_and_its_claims_hold(path, run, tmp_path):
    done = check_claims(solved(path, tmp_path), run, TRIES["core"])
    shown = "\n".join([texts_of(done), *(claim.sentence for claim in done.claims)])

    assert "has not passed its check" not in shown
    assert KEPT.get(path.stem, "") in shown


@cases(CORE)
@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_untouched_lesson_runs(path, run):
    run(path)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_lesson_16_audits_a_service_of_the_learners(run, tmp_path):
    lesson = json.loads((FOLDER / "16_your_own_service.ipynb").read_text("utf-8"))
    (service,) = (cell for cell in lesson["cells"] if cell["id"] == "service")
    with greeter(work_s=0.010, workers=1) as theirs:
        service["source"] = f"""
def start(threads):
    return grpc.server(ThreadPoolExecutor(1)), "{theirs.address}"

threads = 1
server, ADDRESS = start(threads)
METHOD, REQUEST = "greeter.v1.Greeter/Hello", '{{"name": "Ada"}}'
LIMIT_S = 0.2
"""
        (copy := tmp_path / "16_your_own_service.ipynb").write_text(json.dumps(lesson), "utf-8")
        shown = texts_of(run(copy))

    assert f"# Audit of greeter.v1.Greeter/Hello at {theirs.address}" in shown
    per_s = int(re.search(r"calls in flight, ([\d,]+) calls/s", shown)[1].replace(",", ""))
    assert per_s < 150  # one worker with 10 ms


@cases(FURTHER)
@pytest.mark.long
@pytest.mark.timeout(1000)
def test_a_further_lesson_runs_and_its_claims_hold(path, run):
    check_claims(path, run, TRIES["further"])


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
def test_a_folded_reason_hides_no_cell_that_runs(path):
    """JupyterLab hides all cells below a folded heading, up to a heading of its level."""
    folded, hidden = None, []
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "markdown":
            levels = [len(marks) for marks in re.findall(r"^(#+) ", cell.source, re.MULTILINE)]
            if cell.metadata.get("jp-MarkdownHeadingCollapsed"):
                folded = min(levels)
            elif folded and levels and min(levels) <= folded:
                folded = None
        elif folded:
            hidden.append(cell.id)

    assert hidden == []


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
