"""Run every lesson from top to bottom in fast mode: seconds, claims, errors."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def measure(quick: bool) -> Iterator[dict[str, Any]]:
    """Yield one row for each lesson."""
    os.environ["COURSE_MODE"] = "fast"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["COURSE_PROGRESS"] = str(Path(folder) / "progress.sqlite")
        from tools.run_notebooks import execute, is_further, lessons_in

        total_s = {"core lessons together": 0.0, "further lessons together": 0.0}
        for path in lessons_in(NOTEBOOKS):
            done = execute(path, timeout_s=120)
            total_s[list(total_s)[is_further(path)]] += done.seconds
            yield {
                "lesson": path.stem,
                "seconds": round(done.seconds, 1),
                "claims that hold": f"{sum(c.holds for c in done.claims)} of {len(done.claims)}",
                "error": done.error or "",
            }
        for name, seconds in total_s.items():
            yield {
                "lesson": name,
                "seconds": round(seconds, 1),
                "claims that hold": "",
                "error": "",
            }
