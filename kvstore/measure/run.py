"""What happened in one run: facts as columns, and the figures that follow from them."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore.codes import KINDS, NO_ANSWER, OK, STATUSES
from kvstore.measure.recorder import CALL

if TYPE_CHECKING:
    # Importing pandas takes longer than all the rest: who makes no table does without.
    import pandas as pd

FORMAT = 1
"""Version of the file that `Run.save` writes."""


class Cpu(NamedTuple):
    """Processor time of one process during a run, in seconds, as `time` would print it."""

    user_s: float
    system_s: float
    loop_s: float = math.nan
    """Of both, what the thread of the event loop took; NaN where Python ran in several threads."""

    @property
    def total_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s

    @property
    def serial_s(self) -> float:
        """The part that one call cannot do while another does it.

        Python runs one thread at a time. On an event loop that is the loop's own, and gRPC's
        threads work beside it on other cores. In a pool the turns of all threads count, and
        cannot be told from what gRPC does beside them: all of it is taken, which is too much.
        """
        return self.total_s if math.isnan(self.loop_s) else self.loop_s


NO_CPU = Cpu(math.nan, math.nan)
"""Processor time of a process that cannot be seen from here."""


@dataclass(frozen=True, repr=False)
class Run:
    """One strategy against one server for some seconds.

    The facts are frozen; every figure is computed from them, so none can disagree.
    """

    strategy: str
    """Name of the strategy."""
    in_flight: int
    """The limit the strategy was given; 0 where it knows none."""
    settings: Mapping[str, Any]
    """How the run was asked for: workload, duration, deadline, options of the strategy."""
    server: Mapping[str, Any]
    """What the server said of itself: settings, versions, operations it counted."""
    host: Mapping[str, Any]
    """The machine and the versions on the client's side."""
    started_at: str
    """Local time of the start, ISO 8601."""
    window_s: float
    """Seconds from the start until the last call ended."""
    issued: int
    """Calls sent, counted at sending: a count apart from the records."""
    outcome: str
    """"complete", "interrupted", "memory ceiling", "server gone" or "failed"."""
    records: npt.NDArray[np.void] = field(compare=False)
    """One row of `recorder.CALL` for each call, in the order of their answers."""
    samples: "pd.DataFrame" = field(compare=False)
    """In flight, issued, answered, memory and threads over time."""
    client_cpu: Cpu = NO_CPU
    server_cpu: Cpu = NO_CPU
    machine_cpu_s: float = math.nan
    """Processor seconds that all programs of the client's machine used during the run, and those
    that its host took away from them."""
    machine_stolen_s: float = math.nan
    """Of these, what the host took away ("steal"); NaN where the system does not tell."""
    connections: int = 0
    """Connections that carried calls, as the server counts its callers; 0 if it does not tell."""
    connect_s: Sequence[float] = ()
    """Seconds until each of the connections that the client opened for the run stood."""
    operations_sent: int | None = None
    """Operations sent, counted at sending; None where only the calls were counted."""

    @cached_property
    def calls(self) -> "pd.DataFrame":
        """One row for each call, with words for kinds and statuses, in order of sending."""
        import pandas as pd

        frame = pd.DataFrame({name: self.records[name] for name in self.records.dtype.names or ()})
        del frame["kind"]
        frame.insert(3, "residence_s", frame["done_s"] - frame["sent_s"])
        frame["operation"] = pd.Categorical.from_codes(self.records["kind"], list(KINDS))  # type: ignore[call-overload]
        frame["status"] = pd.Categorical.from_codes(self.records["status"], list(STATUSES))  # type: ignore[call-overload]
        return frame.sort_values("sent_s", kind="stable", ignore_index=True)

    @property
    def issued_operations(self) -> int:
        """Operations sent, counted at sending: a message of a stream carries many."""
        if self.operations_sent is not None:
            return self.operations_sent
        return self.issued + int((self.records["operations"].astype(np.int64) - 1).sum())

    @property
    def operations_ok(self) -> int:
        """Operations answered OK; a call of a batch counts each of its operations."""
        return int(self.records["ok_operations"].sum())

    @property
    def throughput_per_s(self) -> float:
        """Operations answered OK, for each second of the window."""
        return self.operations_ok / self.window_s if self.window_s else 0.0

    @property
    def answered_per_s(self) -> float:
        """Calls answered with any status at all, for each second of the window.

        A refusal such as NOT_FOUND holds the server as long as an answer does, so this is
        the rate that a prediction from service times speaks of.
        """
        answered = np.count_nonzero(self.records["status"] != NO_ANSWER)
        return answered / self.window_s if self.window_s else 0.0

    @property
    def stolen_cores(self) -> float:
        """Cores that the host of a virtual machine took away from the run, in the mean.

        0 where nobody did, or nobody tells. A run with one call in flight is held up by no more
        than that share of its time.
        """
        known = self.window_s and not math.isnan(self.machine_stolen_s)
        return self.machine_stolen_s / self.window_s if known else 0.0

    @property
    def mean_residence_s(self) -> float:
        """Mean seconds from sending a call until its end, whatever the end: W of Little's law."""
        if not len(self.records):
            return float("nan")
        return float(np.mean(self.records["done_s"] - self.records["sent_s"]))

    def latency_s(self, quantile: float) -> float:
        """Seconds that this share of the calls answered OK did not exceed.

        It runs from when a call was due, or in a closed loop, where none is, from sending.
        """
        ok = self.records[self.records["status"] == OK]
        if not len(ok):
            return float("nan")
        start_s = np.where(np.isnan(ok["due_s"]), ok["sent_s"], ok["due_s"])
        return float(np.quantile(ok["done_s"] - start_s, quantile))

    def mix(self) -> dict[str, float]:
        """Share of each kind among the calls that were answered, kinds that occurred only.

        Calls that ended without the server's work (cancelled, no answer) are left out.
        """
        worked = self.records[np.isin(self.records["status"], _WORKED)]
        counts = np.bincount(worked["kind"], minlength=len(KINDS))
        total = counts.sum()
        return {KINDS[k]: float(n / total) for k, n in enumerate(counts) if n}

    def outcomes(self) -> dict[str, int]:
        """Calls by how they ended: OK, a gRPC status, or NO_ANSWER."""
        counts = np.bincount(self.records["status"], minlength=len(STATUSES))
        return {STATUSES[s]: int(n) for s, n in enumerate(counts) if n}

    def save(self, path: str | Path) -> Path:
        """Write the run to one file, whole or not at all; `Run.load` reads it back."""
        path = Path(path)
        header = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "connect_s": list(self.connect_s),
            "client_cpu": list(self.client_cpu),
            "server_cpu": list(self.server_cpu),
            "sample_columns": list(self.samples.columns),
        }
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                np.savez_compressed(
                    file,
                    header=np.array(json.dumps(header)),
                    records=self.records,
                    samples=self.samples.to_numpy(dtype=float),
                )
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Read a run that `save` wrote. Raises `ValueError` when the file is not one."""
        import pandas as pd

        try:
            # Opened here: numpy forgets to close a file that turns out not to be an archive.
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                header = json.loads(str(stored["header"]))
                records, samples = stored["records"], stored["samples"]
            if header["format"] != FORMAT:
                raise ValueError(f"its format is {header['format']}, this version reads {FORMAT}")
            if records.dtype != CALL:
                raise ValueError("its records are laid out in another way")
            return cls(
                **{name: header[name] for name in _PLAIN if name in header},
                connect_s=tuple(header.get("connect_s", ())),
                client_cpu=Cpu(*header["client_cpu"]),
                server_cpu=Cpu(*header["server_cpu"]),
                records=records,
                samples=pd.DataFrame(samples, columns=header["sample_columns"]),
            )
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            raise  # these say it themselves
        except Exception as unreadable:
            raise ValueError(f"{path} is not a saved run: {unreadable}") from unreadable

    def __repr__(self) -> str:
        limit = f" x{self.in_flight}" if self.in_flight else ""
        limit += f" over {self.connections} connections" if self.connections > 1 else ""
        ended = self.outcomes()
        ok = ended.pop("OK", 0)
        others = ", ".join(f"{n:,} {status}" for status, n in ended.items()) or "no other end"
        note = "" if self.outcome == "complete" else f" [{self.outcome}]"
        p50_s, p99_s = self.latency_s(0.50), self.latency_s(0.99)
        latency = f", p50 {1e3 * p50_s:,.1f} ms, p99 {1e3 * p99_s:,.1f} ms" if ok else ""
        return (
            f"<Run {self.strategy}{limit}: {self.throughput_per_s:,.1f} operations/s over"
            f" {self.window_s:.1f} s{latency}; {ok:,} calls OK, {others}{note}>"
        )


_PLAIN = (
    "strategy",
    "in_flight",
    "settings",
    "server",
    "host",
    "started_at",
    "window_s",
    "issued",
    "outcome",
    "connections",
    "machine_cpu_s",
    "machine_stolen_s",
    "operations_sent",
)
_NOT_WORKED = ("CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "NO_ANSWER")
_WORKED = [code for code, name in enumerate(STATUSES) if name not in _NOT_WORKED]
