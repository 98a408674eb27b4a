"""Judge histories with porcupine, a checker in Go; skipped where Go is not installed."""

import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from proofs.case import Case, Figure, Skipped
from proofs.linearizable.checker import Event

FOLDER = Path(__file__).parents[2] / "tools" / "porcupine"
BUILD_S = 300
JUDGE_S = 900


def judge(histories: Sequence[Sequence[Event]]) -> Iterator[Case | Figure | Skipped]:
    """Yield one case for each history without batches, as porcupine judges it."""
    if shutil.which("go") is None:
        yield Skipped("porcupine: there is no go on PATH; install Go from go.dev")
        return
    alone = [each for each in histories if all(event.after < 0 for event in each)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "judge"
        built = subprocess.run(
            ["go", "build", "-o", program, "."],
            cwd=FOLDER, capture_output=True, text=True, timeout=BUILD_S,
        )  # fmt: skip
        if built.returncode:
            yield Skipped(f"porcupine could not be built: {built.stderr.strip()[-200:]}")
            return
        lines = "\n".join(json.dumps([_plain(event) for event in each]) for each in alone)
        judged = subprocess.run(
            [program], input=lines, capture_output=True, text=True, timeout=JUDGE_S, check=True
        )
    verdicts = judged.stdout.split()
    for number, verdict in enumerate(verdicts):
        yield Case(f"porcupine, history {number}", "" if verdict == "Ok" else verdict)
    if len(verdicts) != len(alone):
        yield Case("porcupine", f"expected {len(alone)} verdicts, got {len(verdicts)}")
    yield Figure("histories judged by porcupine", len(verdicts))


def _plain(event: Event) -> dict[str, object]:
    """Return an event for JSON; an operation of unknown effect ends after all others."""
    done_s = event.done_s if event.done_s < math.inf else 1e9
    return {
        "kind": event.kind,
        "value": event.value.decode(),
        "status": event.status if event.known else -1,
        "call": int(event.sent_s * 1e9),
        "return": int(done_s * 1e9),
    }
