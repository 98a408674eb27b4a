"""The scoreboard of a class: `python3 course.py scoreboard FOLDER` reads records from a folder.

No server is needed: each learner hands in the files of `records()` of the capstone. The points are
computed again from each record. A record whose points do not follow from its content is marked.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from kvstore.judge import is_met, is_passed, lines_of
from kvstore.judge.sitting import FORMAT

COLUMNS: Final = (
    "learner", "points", "passed", "target", "predictions (points)", "bottleneck", "named",
    "measurements", "attempts", "remark",
)  # fmt: skip


def scoreboard(folder: str | Path) -> pd.DataFrame:
    """Return one row for each learner: the first finished service, best points first.

    `attempts` counts all services that the learner opened. Raises `FileNotFoundError` when the
    folder does not exist or has no record.
    """
    found = list(_records(Path(folder)))
    if not found:
        raise FileNotFoundError(
            f"{folder} has no record of a capstone: collect the `*.json` files of the learners "
            "there"
        )
    by_learner: dict[str, list[dict[str, Any]]] = {}
    for record in sorted(found, key=_opened_at):
        by_learner.setdefault(str(record["learner"]), []).append(record)
    rows = [_row(learner, each) for learner, each in by_learner.items()]
    board = pd.DataFrame(rows, columns=list(COLUMNS)).set_index("learner")
    return board.sort_values("points", ascending=False, kind="stable")


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    for path in sorted(folder.rglob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            print(f"{path}: not a record, passed over", file=sys.stderr)
            continue
        if isinstance(record, dict) and {"learner", "history", "final"} <= record.keys():
            yield record


def _opened_at(record: Mapping[str, Any]) -> float:
    history = record["history"]
    return float(history[0]["at"]) if history else 0.0


def _row(learner: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    finished = [each for each in records if each["final"]]
    own = [each for each in finished if each["practice"] is None]
    counted = next(iter(own or finished), None)
    if counted is None:
        remark = "not finished"
        return {"learner": learner, "points": 0.0, "attempts": len(records), "remark": remark}
    final = counted["final"]
    if counted.get("format") != FORMAT:
        remark = "of another version of the course"
        return {"learner": learner, "points": 0.0, "attempts": len(records), "remark": remark}
    try:
        lines = {line.name: line for line in lines_of(counted)}
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return {"learner": learner, "points": 0.0, "attempts": len(records), "remark": "damaged"}
    points = round(sum(line.points for line in lines.values()), 1)
    remarks = [
        *(["practice"] if counted["practice"] is not None else []),
        *(["its points were changed"] if final.get("points") != points else []),
    ]
    predicted = lines["start predicted"].points + lines["result predicted"].points
    return {
        "learner": learner,
        "points": points,
        "passed": "yes" if is_passed(lines.values()) else "no",
        "target": "met" if is_met(lines.values()) else "missed",
        "predictions (points)": round(predicted, 1),
        "bottleneck": final["case"]["first"],
        "named": lines["stations named"].points,
        "measurements": sum(each["event"] == "measure" for each in counted["history"]),
        "attempts": len(records),
        "remark": ", ".join(remarks),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the scoreboard of a folder; the exit status is 1 when it has no record."""
    parse = argparse.ArgumentParser(prog="course.py scoreboard")
    parse.add_argument("folder", type=Path, help="a folder with the records of a class")
    try:
        board = scoreboard(parse.parse_args(arguments).folder)
    except FileNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(board.fillna("").to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
