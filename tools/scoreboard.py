"""The scoreboard of a class: `python3 course.py class scoreboard FOLDER` reads records.

No server is needed: each learner hands in the files of `records()` of the capstone. The points are
computed again from each record. A record is marked if its points or its changes do not follow from
its history, or if another learner handed in the same one.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd

from kvstore.judge import is_met, is_passed, lines_of
from kvstore.judge.sitting import FORMAT

COLUMNS: Final = (
    "learner", "points", "passed", "target", "predictions (points)", "bottleneck", "named",
    "measurements", "attempts", "remark",
)  # fmt: skip
DAMAGED: Final = "damaged"
ODD: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a record raises that does not have the form in which the course writes it."""


class _Handed(NamedTuple):
    """A record that a learner handed in."""

    opened_at: float
    path: Path
    learner: str
    id: str
    record: Mapping[str, Any]


def scoreboard(folder: str | Path) -> pd.DataFrame:
    """Return one row for each learner: the first finished service, best points first.

    `attempts` counts all services that the learner opened. A damaged file has the remark "damaged"
    and its name. Raises `FileNotFoundError` when the folder does not exist or has no record.
    """
    handed, rows = [], []
    for path, record in _records(Path(folder)):
        try:
            opened_at = float(record["history"][0]["at"])
            learner, name = str(record["learner"]), str(record["id"])
        except ODD:
            rows.append(_remarked(path.name, 0, f"{DAMAGED}: {path}"))
        else:
            handed.append(_Handed(opened_at, path, learner, name, record))
    if not handed and not rows:
        raise FileNotFoundError(
            f"{folder} has no record of a capstone: collect the `*.json` files of the learners "
            "there"
        )
    by_learner: dict[str, dict[str, _Handed]] = {}
    for each in sorted(handed, key=lambda each: (each.opened_at, each.path)):
        by_learner.setdefault(each.learner, {}).setdefault(each.id, each)
    for learner, own in by_learner.items():
        others = {name: theirs for name, theirs in by_learner.items() if name != learner}
        same = [name for name, theirs in others.items() if own.keys() & theirs.keys()]
        rows.append(_row(learner, list(own.values()), same))
    board = pd.DataFrame(rows, columns=list(COLUMNS)).set_index("learner")
    return board.sort_values("points", ascending=False, kind="stable")


def _records(folder: Path) -> Iterator[tuple[Path, Any]]:
    """Yield each file and its content, None if it is no JSON.

    Passed over are other files of Jupyter's folders: JSON objects with names of their own.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for path in sorted(folder.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            yield path, None
            continue
        is_other = isinstance(record, dict) and record
        if not is_other or {"learner", "history", "final"} & record.keys():
            yield path, record


def _remarked(learner: str, attempts: int, remark: str) -> dict[str, Any]:
    return {"learner": learner, "points": 0.0, "attempts": attempts, "remark": remark}


def _row(learner: str, handed: Sequence[_Handed], same: Sequence[str]) -> dict[str, Any]:
    finished = [each for each in handed if each.record.get("final")]
    own = [each for each in finished if each.record.get("practice") is None]
    counted = next(iter(own or finished), None)
    if counted is None:
        return _remarked(learner, len(handed), "not finished")
    if counted.record.get("format") != FORMAT:
        return _remarked(learner, len(handed), "of another version of the course")
    try:
        row, remarks = _scored(counted.record)
    except ODD:
        return _remarked(learner, len(handed), f"{DAMAGED}: {counted.path}")
    remarks += [f"the same record as {name}'s" for name in same]
    more = {"learner": learner, "attempts": len(handed), "remark": ", ".join(remarks)}
    return row | more


def _scored(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what a finished record scores, and remarks."""
    final, history = record["final"], record["history"]
    lines = {line.name: line for line in lines_of(record)}
    points = round(sum(line.points for line in lines.values()), 1)
    remarks = [
        *(["practice"] if record["practice"] is not None else []),
        *(["its points were changed"] if final.get("points") != points else []),
        *(["its history was changed"] if not _follows(history, final) else []),
    ]
    predicted = lines["start predicted"].points + lines["result predicted"].points
    scored = {
        "points": points,
        "passed": "yes" if is_passed(lines.values()) else "no",
        "target": "met" if is_met(lines.values()) else "missed",
        "predictions (points)": round(predicted, 1),
        "bottleneck": final["case"]["first"],
        "named": lines["stations named"].points,
        "measurements": sum(each["event"] == "measure" for each in history),
    }
    return scored, remarks


def _follows(history: Sequence[Mapping[str, Any]], final: Mapping[str, Any]) -> bool:
    """Whether the history is in order: nothing is chosen or predicted after its run."""
    begun, bought = set[str](), list[str]()
    for each in history:
        event = each["event"]
        if (event in ("name", "buy") and "result" in begun) or each.get("of") in begun:
            return False
        bought = each["changes"] if event == "buy" else bought
        begun |= {event, each.get("run", event)}
    times = [each["at"] for each in history]
    last = history[-1]
    ended = last["event"] == "result" and last["changes"] == final["changes"] == bought
    return bool(ended and times == sorted(times))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scoreboard; the exit status is 1 without a record, and if one is damaged."""
    parse = argparse.ArgumentParser(prog="course.py class scoreboard")
    parse.add_argument("folder", type=Path, help="a folder with the records of a class")
    try:
        board = scoreboard(parse.parse_args(arguments).folder)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(board.to_string(na_rep=""))
    damaged = [each for each in board["remark"] if each.startswith(DAMAGED)]
    for remark in damaged:
        print(f"error: {remark}: it was not written by the course, or was cut off", file=sys.stderr)
    return int(bool(damaged))


if __name__ == "__main__":
    sys.exit(main())
