"""Messages of many operations as numbers: what they bring, and what they cost in waiting."""

from collections.abc import Collection, Mapping

import pandas as pd

from kvstore.course.tables.layout import by_row, rounded
from kvstore.measure import Run
from kvstore.measure.price import busy, pace_s
from kvstore.model import batching


def throughput_by_batch(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
) -> pd.DataFrame:
    """Runs by operations in a message: X = k / (a + b k), the measured X, and the price of one.

    `fitted` are the sizes that a and b were taken from.
    """
    cost = {"per_message_s": per_message_s, "per_operation_s": per_operation_s}
    rows = []
    for size, run in sorted(runs.items()):
        predicted = batching.throughput(size, **cost).value
        rows.append(
            {
                "operations in a message": size,
                "predicted (operations/s)": predicted,
                "measured (operations/s)": run.throughput_per_s,
                "measured ÷ predicted": run.throughput_per_s / predicted,
                "a + b·k (µs)": 1e6 * (per_message_s + per_operation_s * size),
                "price of a message (µs)": 1e6 * pace_s(run),
                "dearer side busy (%)": 100 * busy(run),
                "used for": "a and b" if size in fitted else "the test",
            }
        )
    return rounded(by_row(rows, "operations in a message"))


def residence_by_batch(
    runs: Mapping[int, Run],
    *,
    per_message_s: float,
    per_operation_s: float,
    fitted: Collection[int] = (),
) -> pd.DataFrame:
    """How long a message is under way, by the operations in it: N (a + b k), and measured."""
    rows = [
        {
            "operations in a message": size,
            "messages in flight": run.in_flight,
            "predicted (ms)": 1e3 * run.in_flight * (per_message_s + per_operation_s * size),
            "residence of a message (ms)": 1e3 * run.mean_residence_s,
            "used for": "a and b" if size in fitted else "the test",
        }
        for size, run in sorted(runs.items())
    ]
    return rounded(by_row(rows, "operations in a message"))
