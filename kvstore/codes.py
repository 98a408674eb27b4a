"""The kinds of operation and the ways a call can end, as one byte each.

A run of a million calls keeps a byte for each of these, not a word; the words below
are what people read.
"""

from typing import Final

KINDS: Final = ("batch", "create", "retrieve", "update", "delete")
"""Names of the operation kinds by their code; 0 is a message with several operations."""

BATCH, CREATE, RETRIEVE, UPDATE, DELETE = range(5)

STATUSES: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "NO_ANSWER",
)
"""gRPC's status names by their code, and one of ours: NO_ANSWER, nobody knows what became of it."""

OK: Final = 0
CANCELLED: Final = 1
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
RESOURCE_EXHAUSTED: Final = 8
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
NO_ANSWER: Final = len(STATUSES) - 1
