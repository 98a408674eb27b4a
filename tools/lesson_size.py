"""Measure a lesson against the limits of its size, and compute how long it takes.

`course.py check` names what exceeds a limit. A cell is visible unless its source is hidden. A cell
with the tag `seconds-30` takes 30 seconds to run in class; without one, the lengths that it sets
with `mode.seconds(normal=...)` or as `duration_s=...` are added up.
"""

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kvstore.course import questions
from tools import run_notebooks

LIMITS: Final = {
    "visible cells": 25,
    "lines of a cell": 12,
    "words": 1500,
    "predictions": 4,
    "figures": 4,
    "exercises": 2,
}
"""No lesson may have more."""
FURTHER_LIMITS: Final = {**LIMITS, "minutes": 30}
WORDS_PER_MINUTE: Final = 150
MINUTES: Final = {
    "visible cells": 0.5,
    "predictions": 1.75,  # with the discussion of the result
    "exercises": 5.0,
    "quiz questions": 0.7,
}


def problems(lesson: Path) -> Iterator[str]:
    """Yield what exceeds its limit, and the minutes if the lesson states others."""
    found, text = measured(lesson), _text(_cells(lesson, "markdown"))
    limits = FURTHER_LIMITS if run_notebooks.is_further(lesson) else LIMITS
    for name, most in limits.items():
        if found[name] > most:
            yield f"has {found[name]:g} {name}, at most {most} are allowed"
    stated = re.search(r"takes\s+(?:about\s+)?\**(\d+)\s+minutes", text)
    if not stated or abs(int(stated[1]) - found["minutes"]) > 1:
        yield f"takes {found['minutes']} minutes: it has to say so"


def measured(lesson: Path) -> dict[str, float]:
    """Return the quantities of a lesson by name: those with a limit, and those that take time."""
    code = _cells(lesson, "code")
    visible = [
        each for each in code if not each["metadata"].get("jupyter", {}).get("source_hidden")
    ]
    lines = [sum(map(bool, map(str.strip, _text([each]).splitlines()))) for each in visible]
    calls = [call for cell in code for call in _calls(cell)]
    asked = {
        name: {text for call in calls for text in _first_text(call, function)}
        for name, function in (("predictions", "predict"), ("exercises", "check"), ("", "quiz"))
    }
    found: dict[str, float] = {
        "visible cells": len(visible),
        "lines of a cell": max(lines, default=0),
        "words": _words(_text(_cells(lesson, "markdown"))),
        "predictions": len(asked["predictions"]),
        "figures": sum(bool(re.match(r"(plot|draw)_(?!stations)", _name(each))) for each in calls),
        "exercises": len(asked["exercises"]),
        "quiz questions": sum(
            1 if "." in each else len(questions.asked(each)) for each in asked[""]
        ),
    }
    minutes = found["words"] / WORDS_PER_MINUTE + sum(map(_run_s, code)) / 60
    minutes += sum(each * found[name] for name, each in MINUTES.items())
    return {**found, "minutes": round(minutes)}


def _cells(lesson: Path, kind: str) -> list[dict[str, Any]]:
    cells = json.loads(lesson.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def _text(cells: Sequence[dict[str, Any]]) -> str:
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def _words(text: str) -> int:
    """Return how many words a text has, without code blocks, addresses, markup and formulas."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.M | re.S)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", "X", text, flags=re.S)
    text = re.sub(r"`[^`\n]+`", "code", text)
    text = re.sub(r"\]\([^)]*\)|https?://\S+|<[^>]+>", "", text)
    return len(re.findall(r"[^\W_]+(?:[-'\u2019.,/][^\W_]+)*", text))


def _calls(cell: dict[str, Any]) -> list[ast.Call]:
    python = "\n".join(line for line in _text([cell]).splitlines() if line[:1] not in ("%", "!"))
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(python, "cell", "exec", flags)
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _first_text(call: ast.Call, function: str) -> Iterator[str]:
    match call.args:
        case [ast.Constant(str() as text), *_] if _name(call) == function:
            yield text


def _run_s(cell: dict[str, Any]) -> float:
    """Return how long the runs of a cell take in class, in seconds."""
    for tag in cell["metadata"].get("tags", ()):
        if tag.startswith("seconds-"):
            return float(tag.removeprefix("seconds-"))
    return sum(
        float(word.value.value)
        for call in _calls(cell)
        for word in call.keywords
        if word.arg == "duration_s" or (word.arg == "normal" and _name(call) == "seconds")
        if isinstance(word.value, ast.Constant) and isinstance(word.value.value, int | float)
    )
