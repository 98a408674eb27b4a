"""Measure a lesson against the limits of its size, and compute how long it takes.

`course.py check` names what exceeds a limit, and `--fix` writes the minutes. A cell is visible
unless its source is hidden. A cell with the tag `seconds-30` takes 30 seconds to run in class;
without one, the lengths that it sets with `mode.seconds(normal=...)` or as `duration_s=...` are
added up.
"""

import ast
import copy
import json
import math
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


STATED: Final = re.compile(r"(takes\s+(?:about\s+)?\**)(\d+)(\s+minutes)")
PARTS: Final = "Minutes: "
"""How the line with the minutes of each section begins."""
PARTS_LINE: Final = re.compile(rf"^{PARTS}(.*)$", re.M)


def problems(lesson: Path) -> Iterator[str]:
    """Yield what exceeds its limit, and the minutes if the lesson states others."""
    cells = _cells(lesson)
    found, text = _measured(cells), _text(_of("markdown", cells))
    further = run_notebooks.is_further(lesson)
    for name, most in (FURTHER_LIMITS if further else LIMITS).items():
        if found[name] > most:
            yield f"has {found[name]:g} {name}, at most {most} are allowed"
    stated = STATED.search(text)
    if not stated or abs(int(stated[2]) - found["minutes"]) > 1:
        yield f"takes {found['minutes']:g} minutes: it has to say so"
    if not further and not _same(_parts_in(text), dict(sections(cells))):
        yield "states other minutes of its sections: run `course.py check --fix`"


def with_minutes(notebook: dict[str, Any], *, further: bool) -> dict[str, Any]:
    """Return a copy that states the minutes of the lesson and, if it is a core one, of its parts.

    What it states is kept where it is off by a minute at most.
    """
    cells = copy.deepcopy(notebook["cells"])
    found = _measured(cells)["minutes"]
    for cell in _of("markdown", cells):
        if not (stated := STATED.search(text := _text([cell]))):
            continue
        if abs(int(stated[2]) - found) > 1:
            text = STATED.sub(rf"\g<1>{found:g}\g<3>", text, count=1)
        if not further and not _same(_parts_in(text), parts := dict(sections(cells))):
            said = " · ".join(f"{name} ({minutes})" for name, minutes in parts.items())
            text = f"{PARTS_LINE.sub('', text).rstrip()}\n\n{PARTS}{said}"
        cell["source"] = text.splitlines(keepends=True)
        break
    return {**notebook, "cells": cells}


def sections(cells: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the heading of each section, up to its colon, and its minutes, at least 1."""
    heading, part = "", list[dict[str, Any]]()
    for cell in [*cells, {"cell_type": "markdown", "source": ["## End"]}]:
        found = re.search(r"^## +(.+)$", _text(_of("markdown", [cell])), re.M)
        if found:
            if heading:
                yield heading, max(1, round(_minutes(_quantities(part), part)))
            heading, part = found[1].partition(":")[0].strip(), []
        part.append(cell)


def _parts_in(text: str) -> dict[str, int]:
    """Return the minutes of each section that a lesson states."""
    line = PARTS_LINE.search(text)
    parts = re.findall(r"(.+?) \((\d+)\)(?: · |$)", line[1]) if line else ()
    return {name: int(minutes) for name, minutes in parts}


def _same(stated: dict[str, int], found: dict[str, int]) -> bool:
    near = (abs(minutes - found.get(name, math.inf)) <= 1 for name, minutes in stated.items())
    return list(stated) == list(found) and all(near)


def measured(lesson: Path) -> dict[str, float]:
    """Return the quantities of a lesson by name: those with a limit, and those that take time."""
    return _measured(_cells(lesson))


def _measured(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    found = _quantities(cells)
    return {**found, "minutes": round(_minutes(found, cells))}


def _minutes(found: dict[str, float], cells: Sequence[dict[str, Any]]) -> float:
    runs_s = sum(map(_run_s, _of("code", cells)))
    counted = sum(each * found[name] for name, each in MINUTES.items())
    return found["words"] / WORDS_PER_MINUTE + runs_s / 60 + counted


def _quantities(cells: Sequence[dict[str, Any]]) -> dict[str, float]:
    code = _of("code", cells)
    visible = [
        each for each in code if not each["metadata"].get("jupyter", {}).get("source_hidden")
    ]
    lines = [sum(map(bool, map(str.strip, _text([each]).splitlines()))) for each in visible]
    calls = [call for cell in code for call in _calls(cell)]
    asked = {
        name: {text for call in calls for text in _first_text(call, function)}
        for name, function in (("predictions", "predict"), ("exercises", "check"), ("", "quiz"))
    }
    return {
        "visible cells": len(visible),
        "lines of a cell": max(lines, default=0),
        "words": _words(_text(_of("markdown", cells))),
        "predictions": len(asked["predictions"]),
        "figures": sum(bool(re.match(r"(plot|draw)_(?!stations)", _name(each))) for each in calls),
        "exercises": len(asked["exercises"]),
        "quiz questions": sum(
            1 if "." in each else len(questions.asked(each)) for each in asked[""]
        ),
    }


def _cells(lesson: Path) -> list[dict[str, Any]]:
    return list(json.loads(lesson.read_text("utf-8"))["cells"])


def _of(kind: str, cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["cell_type"] == kind]


def _text(cells: Sequence[dict[str, Any]]) -> str:
    return "\n\n".join("".join(cell["source"]) for cell in cells)


def _words(text: str) -> int:
    """Return how many words a text has, without code blocks, addresses, markup and formulas."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", PARTS_LINE.sub("", text), flags=re.M | re.S)
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
