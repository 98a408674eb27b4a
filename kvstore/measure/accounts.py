"""What became of every operation: done, failed by name, or unknown."""

from typing import Final, NamedTuple

import numpy as np

from kvstore.codes import STATUSES
from kvstore.measure.run import Run

SAY_NOTHING: Final = (
    "CANCELLED",
    "UNKNOWN",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "NO_ANSWER",
)
"""Ends that do not tell whether the server did the operation. All others but OK are refusals."""

_UNKNOWN = [STATUSES.index(name) for name in SAY_NOTHING]


class Accounts(NamedTuple):
    """Operations by what became of them; a message of a stream carries many."""

    issued: int
    """Operations sent, counted at sending."""
    ok: int
    """Done, and answered so."""
    failed: int
    """Refused by the server, each with a status that says why."""
    unknown: int
    """Perhaps done and perhaps not: no answer came, or one that leaves it open."""

    @property
    def balanced(self) -> bool:
        """Whether each operation that was sent is in one of the three others."""
        return self.issued == self.ok + self.failed + self.unknown

    def __repr__(self) -> str:
        sign = "=" if self.balanced else "IS NOT"
        return (
            f"{self.issued:,} operations sent {sign} {self.ok:,} done + {self.failed:,} failed"
            f" + {self.unknown:,} unknown"
        )


def accounts(run: Run) -> Accounts:
    """Every operation of a run, by what became of it.

    The count at sending and the records of the ends are made apart, by different code: when
    they differ, something was lost or counted twice.
    """
    records = run.records
    count = records["operations"].astype(np.int64)
    ok = records["ok_operations"].astype(np.int64)
    unknown = np.isin(records["status"], _UNKNOWN)
    return Accounts(
        issued=run.issued_operations,
        ok=int(ok.sum()),
        failed=int((count - ok)[~unknown].sum()),
        unknown=int((count - ok)[unknown].sum()),
    )
