"""A load test of any service: what to expect, how much it takes, and whether to believe it.

first_call   whether the service answers, how long that takes, and whether a stream ends
levels       runs with more and more calls in flight: the ceiling, the knee and a prediction
bottleneck   what sets the ceiling, with the evidence for it
search       runs at other arrival rates, to find the highest one that meets an objective
findings     failures, limits that were reached, outages; the populations of the calls
estimates    figures with intervals, and the steady part of a closed loop
report       a run with its prediction and its verdict
saved        saved runs: reported, compared, merged
__main__     the command `rpcload`, or `python -m kvstore.load_test`
"""

from kvstore.load_test.estimates import Estimate, Level
from kvstore.load_test.findings import findings, findings_of_calibration, outages, populations
from kvstore.load_test.first_call import FirstCallFailed, first_call
from kvstore.load_test.levels import Calibration, NothingSucceeded, calibrate
from kvstore.load_test.search import Found, Objective, Step, highest_rate, search, step_of

__all__ = [
    "Calibration",
    "Estimate",
    "FirstCallFailed",
    "Found",
    "Level",
    "NothingSucceeded",
    "Objective",
    "Step",
    "calibrate",
    "findings",
    "findings_of_calibration",
    "first_call",
    "highest_rate",
    "outages",
    "populations",
    "search",
    "step_of",
]
