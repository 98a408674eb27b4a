"""The facts of one run as columns, the figures computed from them, and the file of a run."""

import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib.recfunctions import structured_to_unstructured, unstructured_to_structured

from kvstore.measure.recorder import CALL, NO_CPU, Cpu, Records
from kvstore.measure.server_report import ServerReport
from kvstore.numbers import count, number, seconds
from kvstore.protocol import DEADLINE_EXCEEDED, KINDS, NO_ANSWER, OK, STATUSES

if TYPE_CHECKING:
    import pandas as pd


# How a run ended.


UNANSWERED = (DEADLINE_EXCEEDED, NO_ANSWER)
"""Statuses of calls that a server did not answer in time."""


class Outcome(StrEnum):
    """How a run ended, worst outcome first.

    The outcome of several generators together is the worst one of their outcomes.
    """

    SERVER_GONE = "server gone"
    """The server's process ended, or nothing listens at its address."""
    FAILED = "failed"
    """The strategy raised an error, or a generator was killed."""
    SERVER_UNRESPONSIVE = "server unresponsive"
    """The server stopped answering during the run and did not answer afterwards. Calls ended at
    their deadline. Nothing failed in the client."""
    MEMORY_CEILING = "memory ceiling"
    """Client or server reached the memory ceiling, and the calls in flight were cancelled."""
    INTERRUPTED = "interrupted"
    """Ctrl-C."""
    COMPLETE = "complete"
    """The duration or the number of calls was reached."""


FORMAT = 1
"""Version of the format in which `Run.save` writes a file."""


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """One strategy against one server for some seconds.

    The facts are frozen, and every figure is computed from them. A run equals only itself, because
    some of its facts are NaN, which equals nothing.
    """

    strategy: str
    """Name of the strategy."""
    in_flight: int
    """The concurrency limit of the strategy; 0 if it has none."""
    settings: Mapping[str, Any]
    """The settings of the run: workload, duration, deadline, options of the strategy."""
    server: ServerReport
    """The server's own report: settings, versions, operations that it counted."""
    host: Mapping[str, Any]
    """The machine and the versions of the client."""
    started_at: str
    """Local time of the start, ISO 8601."""
    window_s: float
    """Seconds from the start until the last call ended."""
    issued: int
    """Calls sent, counted when they were sent and not from the records."""
    outcome: Outcome
    """How the run ended."""
    records: Records
    """One row of `recorder.CALL` for each call, in the order in which the calls ended."""
    sample_rows: Records
    """Calls in flight, sent and ended, memory and threads over time: rows of `recorder.SAMPLE`."""
    client_cpu: Cpu = NO_CPU
    server_cpu: Cpu = NO_CPU
    machine_cpu_s: float = math.nan
    """CPU seconds of all programs on the client's machine during the run, including those that
    its host took away."""
    machine_stolen_s: float = math.nan
    """The part of it that the host took away ("steal"); NaN if the system does not report it."""
    connections: int = 0
    """Connections that carried calls, as counted by the server; 0 if it does not report them."""
    connect_s: Sequence[float] = ()
    """Seconds until each connection that the client opened for the run was ready."""
    operations_sent: int | None = None
    """Operations sent, counted when they were sent; None if only calls were counted."""
    unresponsive: Mapping[str, float] = field(default_factory=dict)
    """Servers that stopped answering during the run: the seconds from the start until the last
    reply by address, 0 if no reply came."""
    unrecorded: int = 0
    """Calls sent by workers of a fleet that were lost with their records: how these calls ended is
    unknown. `issued` includes them."""
    clock_step_s: float = 0.0
    """Seconds by which the system's clock was set during the run, or the machine suspended."""
    kinds: tuple[str, ...] = KINDS
    """Names of the kinds of call, by their number in the records."""

    @cached_property
    def calls(self) -> "pd.DataFrame":
        """One row for each call in order of sending, with names for kinds and statuses."""
        import pandas as pd

        frame = pd.DataFrame({name: self.records[name] for name in self.records.dtype.names or ()})
        del frame["kind"]
        frame.insert(3, "residence_s", frame["done_s"] - frame["sent_s"])
        frame["operation"] = pd.Categorical.from_codes(self.records["kind"], list(self.kinds))  # type: ignore[call-overload]
        frame["status"] = pd.Categorical.from_codes(self.records["status"], list(STATUSES))  # type: ignore[call-overload]
        return frame.sort_values("sent_s", kind="stable", ignore_index=True)

    @cached_property
    def samples(self) -> "pd.DataFrame":
        """The samples over time as a table, one row each."""
        import pandas as pd  # here: a load generator needs no pandas

        return pd.DataFrame(self.sample_rows)

    @property
    def issued_operations(self) -> int:
        """Operations sent, counted when they were sent. A message of a stream carries several."""
        if self.operations_sent is not None:
            return self.operations_sent
        return self.issued + int((self.records["operations"] - 1).sum())

    @property
    def operations_ok(self) -> int:
        """Operations answered OK. Each operation of a batch counts."""
        return int(self.records["ok_operations"].sum())

    @property
    def throughput_per_s(self) -> float:
        """Throughput: operations answered OK per second of the window."""
        return self.operations_ok / self.window_s if self.window_s else 0.0

    @property
    def answered_per_s(self) -> float:
        """Calls answered with any status per second of the window.

        A call that ends with a status such as NOT_FOUND takes as much service time as one that
        ends with OK. A prediction from service times is therefore compared with this rate.
        """
        answered = np.count_nonzero(self.records["status"] != NO_ANSWER)
        return answered / self.window_s if self.window_s else 0.0

    @property
    def stolen_cores(self) -> float:
        """Mean number of cores that the host took from its virtual machine during the run.

        0 if the system does not report it. A run with one call in flight is delayed by at most
        this share of its time.
        """
        known = self.window_s and not math.isnan(self.machine_stolen_s)
        return self.machine_stolen_s / self.window_s if known else 0.0

    @property
    def mean_residence_s(self) -> float:
        """R of Little's law: mean seconds from sending a call until its end, for every status."""
        if not len(self.records):
            return float("nan")
        return float(np.mean(self.records["done_s"] - self.records["sent_s"]))

    def latency_s(self, quantile: float) -> float:
        """Return the latency in seconds at this quantile (0 to 1), over the calls answered OK.

        Latency is measured from the due time of a call. In a closed loop no call has a due time,
        and it is measured from sending.
        """
        ok = self.records[self.records["status"] == OK]
        if not len(ok):
            return float("nan")
        start_s = np.where(np.isnan(ok["due_s"]), ok["sent_s"], ok["due_s"])
        return float(np.quantile(ok["done_s"] - start_s, quantile))

    def mix(self) -> dict[str, float]:
        """Return the share of each kind among the calls on which the server worked.

        Calls that ended without work of the server (cancelled, refused, no answer) do not count,
        and kinds that did not occur are left out.
        """
        worked = self.records[np.isin(self.records["status"], _WORKED)]
        counts = np.bincount(worked["kind"], minlength=len(self.kinds))
        total = counts.sum()
        return {self.kinds[k]: float(n / total) for k, n in enumerate(counts) if n}

    def outcomes(self) -> dict[str, int]:
        """Return the number of calls by status: the name of a gRPC status, or NO_ANSWER."""
        counts = np.bincount(self.records["status"], minlength=len(STATUSES))
        return {STATUSES[s]: int(n) for s, n in enumerate(counts) if n}

    @property
    def ended_by(self) -> str:
        """How the run ended, in words.

        If a server stopped answering, the text also says when, and how calls ended afterwards.
        """
        if not self.unresponsive:
            return str(self.outcome)
        servers = " and ".join(
            f"the server at {address} "
            + (f"stopped answering after {seconds(last_s)}" if last_s else "answered no call")
            for address, last_s in self.unresponsive.items()
        )
        late = self.records["done_s"] > min(self.unresponsive.values())
        statuses = self.records["status"][late]
        counts = {STATUSES[code]: np.count_nonzero(statuses == code) for code in UNANSWERED}
        ends = " and ".join(
            f"{count(int(calls), 'call')} ended with {name}"
            for name, calls in counts.items()
            if calls
        )
        return f"{self.outcome}: {servers}: {ends}"

    def save(self, path: str | Path) -> Path:
        """Write the run to one file, completely or not at all. `Run.load` reads it.

        Only the owner may read the file. A link is followed. A device or a pipe is written to
        and never replaced.
        """
        path = Path(path)
        header = {
            "format": FORMAT,
            **{each.name: getattr(self, each.name) for each in _FACTS_OF_RUN},
            "server": self.server.as_dict(),
            "settings": dict(self.settings),
            "sample_columns": self.sample_rows.dtype.names or (),
        }

        def write(file: IO[bytes]) -> None:
            np.savez_compressed(
                file,
                header=np.array(json.dumps(header)),
                records=self.records,
                samples=structured_to_unstructured(self.sample_rows, dtype=float),
            )

        target = path.resolve()
        if target.exists() and not target.is_file():
            content = io.BytesIO()  # numpy writes only where it can go back
            write(content)
            target.write_bytes(content.getbuffer())
        else:
            _replace(target, write)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Return the run in a file that `save` wrote. Raises `ValueError` for any other file."""
        try:
            # Opened here, because numpy does not close a file that is not an archive.
            with (
                open(path, "rb") as file,
                np.load(file, allow_pickle=False) as stored,
            ):
                header = json.loads(str(stored["header"]))
                _check_format(header["format"])
                records, samples = stored["records"], stored["samples"]
            if records.dtype != CALL:
                raise ValueError(f"its records must have the columns of CALL, got {records.dtype}")
            facts = {each.name: header[each.name] for each in _FACTS_OF_RUN if each.name in header}
            facts |= {
                "server": ServerReport.of(header["server"]),
                "outcome": Outcome(header["outcome"]),
                "connect_s": tuple(header["connect_s"]),
                "kinds": tuple(header["kinds"]),
                "client_cpu": Cpu(*header["client_cpu"]),
                "server_cpu": Cpu(*header["server_cpu"]),
                "records": records,
                "sample_rows": unstructured_to_structured(
                    samples, np.dtype([(name, float) for name in header["sample_columns"]])
                ),
            }
            return cls(**facts)
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            raise  # their own messages say what is wrong
        except Exception as unreadable:
            raise ValueError(
                f"{path} is not a saved run: {unreadable}."
                " Load a file that Run.save wrote, unchanged."
            ) from unreadable

    def __repr__(self) -> str:
        limit = f" x{self.in_flight}" if self.in_flight else ""
        limit += f" over {self.connections} connections" if self.connections > 1 else ""
        ended = self.outcomes()
        ok = ended.pop("OK", 0)
        others = ", ".join(f"{n:,} {status}" for status, n in ended.items()) or "no other end"
        note = "" if self.outcome == Outcome.COMPLETE else f" [{self.ended_by}]"
        p50_s, p99_s = self.latency_s(0.50), self.latency_s(0.99)
        latency = f", p50 {seconds(p50_s)}, p99 {seconds(p99_s)}" if ok else ""
        return (
            f"<Run {self.strategy}{limit}: {number(self.throughput_per_s)} operations/s over"
            f" {seconds(self.window_s)}{latency}; {count(ok, 'call')} OK, {others}{note}>"
        )


_NOT_WORKED = ("CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "NO_ANSWER")
_WORKED = [code for code, name in enumerate(STATUSES) if name not in _NOT_WORKED]


def _replace(target: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Put a complete file in the place of `target`, readable by its owner only."""
    descriptor, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "wb") as file:
            write(file)
        os.replace(part, target)
    except BaseException:
        os.unlink(part)
        raise


_FACTS_OF_RUN = [each for each in fields(Run) if each.type is not Records]


def _check_format(format_: object) -> None:
    """Raise `ValueError` for a format that this version does not read."""
    if format_ != FORMAT:
        is_newer = isinstance(format_, int) and format_ > FORMAT
        raise ValueError(
            f"its format is {format_!r:.60}, this version reads {FORMAT}"
            + (": update the course, a newer version wrote it" if is_newer else "")
        )
