"""One kind of call, looked at by itself: readers and writers of one run, side by side."""

import dataclasses

from kvstore.codes import KINDS
from kvstore.measure.run import Run


def only(run: Run, operation: str) -> Run:
    """The run as it would look had nobody recorded the other calls.

    `operation` is "create", "retrieve", "update" or "delete"; `ValueError` when it is not.
    Processor time and samples still tell of the whole run.
    """
    if operation not in KINDS[1:]:
        raise ValueError(f"operation must be one of {', '.join(KINDS[1:])}, got {operation!r}")
    records = run.records[run.records["kind"] == KINDS.index(operation)]
    sent = int(records["operations"].sum())
    return dataclasses.replace(run, records=records, issued=len(records), operations_sent=sent)
