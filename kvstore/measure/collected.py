"""The collections of both sides' garbage collectors, as columns of a run's samples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kvstore.collector import Collections, Moment

if TYPE_CHECKING:  # see run.py
    import pandas as pd


def columns(side: str) -> list[str]:
    """The columns of a run's samples that hold the collections of "client" or "server"."""
    return [f"{side}_{name}" for name in Collections._fields]


def with_server(
    samples: "pd.DataFrame", moments: Sequence[Moment], began_unix_s: float
) -> "pd.DataFrame":
    """The samples with what the server had collected by then, counted from the run's begin.

    `began_unix_s` is when the run's clock stood at 0. Without a moment they stay as they are.
    """
    if not moments:
        return samples
    at_s = np.array([moment.at_unix_s - began_unix_s for moment in moments])
    counted = np.array([(0.0, 0.0, 0.0, 0.0), *(moment.collections for moment in moments)])
    begun = counted[np.searchsorted(at_s, 0.0, side="right")]
    by_then = counted[np.searchsorted(at_s, samples["elapsed_s"], side="right")]
    filled = samples.copy()
    filled[columns("server")] = by_then - begun
    return filled
