"""The file of a benchmark: every round of every row, and the conditions.

The format is JSON. A file is written after every round, completely or not at all, so Ctrl-C loses
only the round in which it comes.
"""

import hashlib
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
    """The given file is not the file of a benchmark."""


class Round(NamedTuple):
    """One round of one row; NaN for figures that are not known."""

    per_s: float
    """Operations answered OK per second."""
    client_cpu_s: float
    """CPU seconds for each operation."""
    server_cpu_s: float
    client_call_bytes: float = float("nan")
    """Memory per call in flight, in bytes."""
    server_call_bytes: float = float("nan")
    lost: int = 0
    """Operations that were sent and not answered OK."""


@dataclass(eq=False)
class Row:
    """One row: what was measured, its prediction, and its rounds."""

    server: str
    client: str
    in_flight: int
    bare: str = ""
    """The name of the row of the bare loop for comparison; empty if there is none."""
    predicted_per_s: float = float("nan")
    binds: str = ""
    rounds: list[Round] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the row, different for all rows of a file."""
        return f"{self.server}: {self.client} x{self.in_flight}"

    def median(self, figure: str = "per_s") -> float:
        """Return the median of the rounds; NaN if the figure is not known."""
        known = self.known(figure)
        return float(np.median(known)) if known else float("nan")

    def known(self, figure: str) -> list[float]:
        """Return the figure of every round in which it is known."""
        return [value for each in self.rounds if not np.isnan(value := getattr(each, figure))]

    def spread(self, figure: str = "per_s") -> tuple[float, float]:
        """Return the lowest and the highest figure of the rounds."""
        known = self.known(figure) or [float("nan")]
        return min(known), max(known)


@dataclass
class Results:
    """The rows of a benchmark, and the conditions of the measurement."""

    settings: Mapping[str, Any]
    rows: Sequence[Row]
    host: Mapping[str, Any] = field(default_factory=describe_host)
    started_at: str = field(
        default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds")
    )

    def save(self, path: Path) -> None:
        """Write the file, completely or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        plain = {"format": FORMAT, **asdict(self)}
        plain["rows"] = [asdict(row) | {"rounds": _columns(row.rounds)} for row in self.rows]
        plain = _without_nan(plain)
        plain["checksum"] = _checksum(plain)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Return the results in a file of `save`. Raises `NotResults` for any other file."""
        try:
            content = json.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise NotResults(f"{path} cannot be read: {error}") from error
        except json.JSONDecodeError as error:
            raise NotResults(f"{path} is not JSON: {error}") from error
        if not isinstance(content, dict) or "format" not in content:
            raise NotResults(f"{path} is JSON without a format, so no benchmark wrote it")
        if content["format"] != FORMAT:
            is_newer = isinstance(content["format"], int) and content["format"] > FORMAT
            raise NotResults(
                f"{path} has format {content['format']}, this version reads {FORMAT}: "
                + ("update the course, a newer version wrote it" if is_newer else "measure again")
            )
        stated = content.pop("checksum", None)  # files of before have none
        if stated is not None and stated != _checksum(content):
            raise NotResults(f"{path} was changed or damaged after it was saved: measure again")
        try:
            rows = [_row(each) for each in content["rows"]]
            return cls(content["settings"], rows, content["host"], content["started_at"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise NotResults(f"{path} has missing or unknown entries: {error!r}") from error


def new_path() -> Path:
    """Return the path of a new file, named after date, time and host."""
    host = re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname().partition(".")[0]) or "host"
    return FOLDER / f"{datetime.now():%Y-%m-%d-%H%M%S}-{host}.json"


def _checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of everything in a file but the checksum itself."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _columns(rounds: Sequence[Round]) -> dict[str, list[float]]:
    return {name: [getattr(each, name) for each in rounds] for name in Round._fields}


def _row(content: dict[str, Any]) -> Row:
    columns = {
        name: [float("nan") if value is None else value for value in values]
        for name, values in content.pop("rounds").items()
    }
    rounds = [
        Round(**dict(zip(columns, values, strict=True)))
        for values in zip(*columns.values(), strict=True)
    ]
    predicted = content.pop("predicted_per_s")
    return Row(
        **content, rounds=rounds, predicted_per_s=float("nan") if predicted is None else predicted
    )


def _without_nan(value: Any) -> Any:
    """Return the value with None in place of NaN, which JSON does not have."""
    if isinstance(value, Mapping):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return None if isinstance(value, float) and np.isnan(value) else value
