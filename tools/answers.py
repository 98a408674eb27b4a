"""Read the answers that a reader gave on a page: the file of its button "Save my numbers".

`docs/site/_static/asks.js` writes it. It holds what a file of progress holds of a notebook, so
`store` puts it into one, and the rest of the course needs no second form.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvstore.course import comparisons, curves, progress, questions

FORM = {"course": "rpc-throughput", "answers": 1}


def store(file: Path) -> None:
    """Put the answers of this file into the progress in use.

    Raises ValueError if the file is not one that a page has saved.
    """
    try:
        given = json.loads(file.read_text("utf-8"))
        if {name: given[name] for name in FORM} != FORM:
            raise ValueError("another form")
        for question_id, made in given["predictions"].items():
            _predict(question_id, made)
        for question_id, made in given["choices"].items():
            _choose(question_id, str(made["choice"]))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} is no file of answers that a page of the course saved") from error


def _predict(question_id: str, made: Mapping[str, Any]) -> None:
    value, unit, measured = _positive(made["value"]), str(made["unit"]), made.get("measured")
    drawn = {float(x): _positive(y) for x, y in made.get("curve", ())}
    dots = {float(x): float(y) for x, y in made.get("dots", ())}
    low, high = map(_positive, made.get("interval") or (value, value))
    if not low <= value <= high:
        raise ValueError(f"an interval holds its number, got {low} to {high} and {value}")
    sure = (low, high) if low < high else None
    progress.keep_prediction(question_id, value, unit, drawn, interval=sure)
    if measured is not None:
        number = float(measured)
        error = curves.log_error(drawn, dots) if drawn else comparisons.log_error(value, number)
        progress.settle(question_id, number, lambda *_: error, curve=dots)


def _choose(question_id: str, letter: str) -> None:
    try:
        option = questions.registered_quiz(question_id).lettered.get(letter)
    except LookupError:
        option = None  # the course no longer has it, or never had
    progress.keep_choice(question_id, letter, bool(option and option.right))


def _positive(given: Any) -> float:
    value = float(given)
    if not 0 < value < math.inf:
        raise ValueError(f"a prediction is above zero, got {given}")
    return value
