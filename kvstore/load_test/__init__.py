"""A load test of any service: what to expect, how much it takes, and whether to believe it.

levels    runs with more and more calls in flight, which give a prediction; runs with other
          arrival rates, to find the highest one that meets an objective
report    a run with its prediction and its verdict
__main__  the command `rpcload`, or `python -m kvstore.load_test`
"""

from kvstore.load_test.levels import (
    Calibration,
    Found,
    Level,
    Objective,
    Step,
    calibrate,
    highest_rate,
    search,
)

__all__ = [
    "Calibration",
    "Found",
    "Level",
    "Objective",
    "Step",
    "calibrate",
    "highest_rate",
    "search",
]
