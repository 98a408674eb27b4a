"""Vote in a class: `join("HOST:PORT", "CODE")` once, in any notebook; `open_class()` to teach one.

From then on every prediction and every first choice in a quiz is sent when it is made, without
waiting. It is kept in the folder of the learner's progress until the class has confirmed it: the
next notebook sends what one left behind.
"""

import ast
import contextlib
import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.core.getipython import get_ipython

from kvstore import numbers, subprocesses
from kvstore.course import lessons, progress, questions, rendering
from kvstore.course.progress import Question

if TYPE_CHECKING:
    from kvstore.classroom.client import Student

ROOT: Final = Path(__file__).resolve().parents[2]
_ASKS: Final = ("predict", "quiz", "ask")


@functools.cache
def _student(folder: Path) -> "Student":
    from kvstore.classroom.client import Student  # late: most learners are in no class

    return Student(folder)


def _here() -> "Student | None":
    """Return the student of this folder; None where no class was joined."""
    folder = progress.path().parent
    return _student(folder) if (folder / "class.json").exists() else None


def join(address: str, code: str, name: str = "") -> None:
    """Join the class whose address and code are on the board; a name only if you wish one.

    It counts for all notebooks, until `leave()`. ClassError, with what to do, if it cannot be
    joined.
    """
    student = _student(progress.path().parent)
    joined = student.join(address, code, name)
    waiting = student.waiting()
    late = f" {numbers.count(waiting, 'vote')} will be sent now." if waiting else ""
    rendering.say(
        f"You are in the class, with {numbers.count(joined - 1, 'other voter')}. Your predictions "
        f"and quiz answers are sent from now on, {f'as {name}' if name else 'without a name'}."
        f" `leave()` ends it.{late}"
    )


def leave() -> None:
    """Leave the class: nothing is sent from now on."""
    _student(progress.path().parent).leave()
    rendering.say("You have left the class.")


def predicted(question: Question) -> None:
    """Send a prediction that stands before its run; without a class, do nothing."""
    if question.value is not None and not question.closed and (student := _here()):
        _sent(student, question.question_id, value=question.value, unit=question.unit or "")


def chose(question_id: str, letter: str, first: str) -> None:
    """Send the first choice in a quiz; without a class, do nothing."""
    if letter == first and (student := _here()):
        _sent(student, question_id, choice=letter)


def _sent(student: "Student", question_id: str, **answer: Any) -> None:
    import sqlite3

    try:
        student.vote(question_id, **answer)
    except (OSError, sqlite3.Error) as error:
        rendering.say(f"The class does not get this vote: {student.folder} ({error}).")


def open_class(*lessons: str, lan: bool = False, browser: bool = True) -> None:
    """Open a class from a notebook, as `python3 course.py class open` does; ■ closes it.

    `lessons` are those of the command, such as "03". The class ends with this kernel, too.
    """
    flags = [*(["--lan"] if lan else []), *([] if browser else ["--no-browser"])]
    with subprocesses.child("kvstore.classroom", [*flags, *lessons]) as opened:
        try:
            for line in opened.popen.stdout or ():
                print(line, end="", flush=True)
            print(opened.error_text())
        except KeyboardInterrupt:
            print("The class is closed. Its votes are in the file above.")


def offer() -> None:
    """Let a notebook call `join` as the board has it, and send what an earlier one left behind."""
    if shell := get_ipython():
        import sqlite3

        shell.user_ns.setdefault("join", join)
        with contextlib.suppress(OSError, sqlite3.Error):
            if student := _here():
                student.resume()


def print_catalogue() -> None:
    """Print what the process of a class needs, as JSON: `sys.argv` has the lessons."""
    print(json.dumps(catalogue(sys.argv[1:])))


def catalogue(names: list[str]) -> dict[str, Any]:
    """Return the questions of these lessons (all core ones without a name) in their order.

    With them are the learner's progress and its folder. LookupError for an unknown lesson.
    """
    asked = []
    for notebook in _notebooks(names):
        for kind, id, *text in _asked_in(notebook):
            if kind == "ask":  # its `predict` comes later and knows less
                asked.append({"id": id, "text": " ".join(text), "unit": "", "camps": {}})
            elif id not in {each["id"] for each in asked}:
                asked += [_prediction(id)] if kind == "predict" else _quiz(id)
    file = progress.path()
    return {"questions": asked, "progress": str(file), "folder": str(file.parent)}


def _asked_in(notebook: Path) -> Iterator[list[str]]:
    """Yield the name and the texts of each call that asks something, in their order."""
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        try:
            tree = ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")
        except SyntaxError:
            continue  # a line of IPython's
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ASKS:
                texts = [ast.unparse(each) for each in node.args[:2]]
                yield [ast.unparse(node.func), *(each.strip("f'\"") for each in texts)]


def _notebooks(names: list[str]) -> list[Path]:
    every = sorted((ROOT / "notebooks").glob("*.ipynb"))
    further = sorted((ROOT / "notebooks" / "further").glob("*.ipynb"))
    if not names:
        return [each for each in every if each.stem in lessons.LESSONS.values()]
    notebooks = []
    for name in names:
        fits = [p for p in (*every, *further) if p.stem.startswith(name) or str(p).endswith(name)]
        if not fits:
            raise LookupError(f"there is no lesson {name!r}")
        notebooks.append(fits[0])
    return notebooks


def _prediction(id: str) -> dict[str, Any]:
    try:
        known = questions.registered(id)
    except LookupError:  # of a lesson that a teacher writes
        return {"id": id, "text": "", "unit": "", "camps": {}}
    text = known.text
    if isinstance(known, questions.Curve):
        text += f" Counted is your line at {numbers.number(known.xs[-1])} ({known.over})."
    camps = {
        f"{each.camp:g}": each.thinks or rendering.as_sentence(each.lacks)
        for each in known.camps
        if not isinstance(each.camp, str)
    }
    return {"id": id, "text": text, "unit": known.unit, "camps": camps}


def _quiz(name: str) -> list[dict[str, Any]]:
    return [
        {
            "id": each.id,
            "text": each.text,
            "options": {letter: option.text for letter, option in each.lettered.items()},
            "right": next(letter for letter, option in each.lettered.items() if option.right),
            "camps": {},
        }
        for each in questions.asked(name)
    ]
