"""The outside judge: porcupine, a checker of linearizability in Go."""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from long.checker import Event

SOURCE = Path(__file__).with_name("porcupine")
BUILD_S, JUDGE_S = 300, 600
NEVER_S = 1e9


class NoPorcupine(RuntimeError):
    """Porcupine cannot be built here, and why."""


def built(folder: Path) -> Callable[[Sequence[Sequence[Event]]], list[str]]:
    """Build porcupine in this folder; return what says Ok, Illegal or Unknown of each history."""
    program = folder / "judge"
    if shutil.which("go") is None:
        raise NoPorcupine("there is no go on PATH; install Go from go.dev")
    made = subprocess.run(
        ["go", "build", "-o", program, "."],
        cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_S,
    )  # fmt: skip
    if made.returncode:
        raise NoPorcupine(f"porcupine could not be built: {made.stderr.strip()[-200:]}")

    def judge(histories: Sequence[Sequence[Event]]) -> list[str]:
        lines = "\n".join(json.dumps([_plain(event) for event in each]) for each in histories)
        judged = subprocess.run(
            [program], input=lines, capture_output=True, text=True, timeout=JUDGE_S, check=True
        )
        return judged.stdout.split()

    return judge


def _plain(event: Event) -> dict[str, object]:
    """Return an event for JSON; an operation of unknown effect ends after all others."""
    return {
        "kind": event.kind,
        "value": event.value.decode(),
        "status": event.status if event.known else -1,
        "call": int(event.sent_s * 1e9),
        "return": int((event.done_s if event.known else NEVER_S) * 1e9),
        "after": event.after,
    }
