"""A load test of any service: what to expect, how much it takes, and whether to believe it.

calibration   short runs with more and more calls in flight: the ceiling, the knee N*, a prediction
search        the highest arrival rate that meets an objective, by open-loop steps
report        a run with its prediction and its verdict, as text and as JSON
"""

from kvstore.load_test.calibration import Calibration, Level, calibrate
from kvstore.load_test.report import as_json, as_text
from kvstore.load_test.search import Found, Objective, Step, highest_rate, search

__all__ = [
    "Calibration",
    "Found",
    "Level",
    "Objective",
    "Step",
    "as_json",
    "as_text",
    "calibrate",
    "highest_rate",
    "search",
]
