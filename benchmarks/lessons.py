"""Every lesson executed from top to bottom in fast mode: seconds, claims, failures."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """One row for each lesson."""
    os.environ["COURSE_MODE"] = "fast"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COURSE_PROGRESS"] = str(Path(folder) / "progress.sqlite")
        from kvstore.course.execute import execute

        total_s = 0.0
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            done = execute(path, timeout_s=120)
            total_s += done.seconds
            yield {
                "lesson": path.stem,
                "seconds": round(done.seconds, 1),
                "claims that hold": f"{sum(c.holds for c in done.claims)} of {len(done.claims)}",
                "error": done.error or "",
            }
        yield {
            "lesson": "together",
            "seconds": round(total_s, 1),
            "claims that hold": "",
            "error": "",
        }
