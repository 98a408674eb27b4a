"""The file of a benchmark: every round of every row, with the conditions, so that others compare.

JSON, so that a person can read it and another tool too. A file is written whole or not at all,
after every round: Ctrl-C loses the round it came in and no other.
"""

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kvstore.measure import describe_host

FORMAT = 1
"""Version of the file."""
FOLDER = Path(__file__).parent / "results"


class NotResults(ValueError):
    """A file that was given is not a benchmark's."""


class Round(NamedTuple):
    """One run of one row; NaN where nobody can know."""

    per_s: float
    """Operations answered OK for each second."""
    client_cpu_s: float
    """Processor seconds for each operation."""
    server_cpu_s: float
    client_call_bytes: float = float("nan")
    """Memory for each call in flight."""
    server_call_bytes: float = float("nan")
    lost: int = 0
    """Operations that were sent and ended in any other way than OK."""


@dataclass
class Row:
    """One setting, and what its rounds gave."""

    server: str
    client: str
    in_flight: int
    bare: str = ""
    """The name of the row whose loop this one is compared with; empty where there is none."""
    predicted_per_s: float = float("nan")
    binds: str = ""
    rounds: list[Round] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What tells this row from all others, in every file."""
        return f"{self.server}: {self.client} x{self.in_flight}"

    def median(self, figure: str = "per_s") -> float:
        """The median of the rounds; NaN when no round knows."""
        known = self.known(figure)
        return float(np.median(known)) if known else float("nan")

    def known(self, figure: str) -> list[float]:
        """The figure, from every round that knows it."""
        return [value for each in self.rounds if not np.isnan(value := getattr(each, figure))]

    def spread(self, figure: str = "per_s") -> tuple[float, float]:
        """The lowest and the highest of the rounds."""
        known = self.known(figure) or [float("nan")]
        return min(known), max(known)


@dataclass
class Results:
    """Rows, and the conditions they were measured under."""

    settings: Mapping[str, Any]
    rows: Sequence[Row]
    host: Mapping[str, Any] = field(default_factory=describe_host)
    started_at: str = field(
        default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds")
    )

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = {"format": FORMAT, **asdict(self)}
        plain["rows"] = [asdict(row) | {"rounds": _columns(row.rounds)} for row in self.rows]
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(_without_nan(plain), indent=1) + "\n", encoding="utf-8")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read what `save` wrote. Raises `NotResults`, saying what is wrong with the file."""
        try:
            told = json.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise NotResults(f"{path} cannot be read: {error}") from error
        except json.JSONDecodeError as error:
            raise NotResults(f"{path} is not JSON: {error}") from error
        if not isinstance(told, dict) or "format" not in told:
            raise NotResults(f"{path} is JSON, but no benchmark wrote it: it names no format")
        if told["format"] != FORMAT:
            raise NotResults(
                f"{path} has format {told['format']}, this version reads {FORMAT}: measure again"
            )
        try:
            rows = [_row(each) for each in told["rows"]]
            return cls(told["settings"], rows, told["host"], told["started_at"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise NotResults(f"{path} lacks something, or has too much: {error!r}") from error


def new_path() -> Path:
    """A file of its own for a benchmark that starts now: date, time and host."""
    host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname().partition(".")[0]) or "host"
    return FOLDER / f"{datetime.now():%Y-%m-%d-%H%M%S}-{host}.json"


def _columns(rounds: Sequence[Round]) -> dict[str, list[float]]:
    return {name: [getattr(each, name) for each in rounds] for name in Round._fields}


def _row(told: dict[str, Any]) -> Row:
    columns = {
        name: [float("nan") if value is None else value for value in values]
        for name, values in told.pop("rounds").items()
    }
    rounds = [
        Round(**dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]
    predicted = told.pop("predicted_per_s")
    return Row(
        **told, rounds=rounds, predicted_per_s=float("nan") if predicted is None else predicted
    )


def _without_nan(value: Any) -> Any:
    """The same with None for NaN, which JSON does not know."""
    if isinstance(value, Mapping):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value
