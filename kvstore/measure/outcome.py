"""How a run ended: the outcomes, and a sentence about one."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from kvstore.protocol import DEADLINE_EXCEEDED, NO_ANSWER, STATUSES

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


def in_words(
    outcome: Outcome, unresponsive: Mapping[str, float], records: npt.NDArray[np.void]
) -> str:
    """Return the outcome, and when servers stopped answering and how calls ended afterwards."""
    if not unresponsive:
        return str(outcome)
    servers = " and ".join(
        f"the server at {address} "
        + (f"stopped answering after {last_s:.1f} s" if last_s else "answered no call")
        for address, last_s in unresponsive.items()
    )
    late = records[records["done_s"] > min(unresponsive.values())]["status"]
    counts = {STATUSES[code]: int(np.count_nonzero(late == code)) for code in UNANSWERED}
    ends = " and ".join(
        f"{count:,} {'call' if count == 1 else 'calls'} ended with {name}"
        for name, count in counts.items()
        if count
    )
    return f"{outcome}: {servers}: {ends}"
