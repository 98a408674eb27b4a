"""A service that is new to the learner: probe it, predict, change it, and be scored.

cases       services drawn from a seed, each with another bottleneck
designs     a strategy of the client, and changes of the server that cost days
forecasts   the throughput of a design, and the cheapest design that is enough
trial       the service itself: probed, and run with a design
score       the learner's predictions and design, and their points line by line
"""

from kvstore.course.capstone.cases import NAMED, STATIONS, Case, Price, Target, case
from kvstore.course.capstone.designs import Design, DesignRefused
from kvstore.course.capstone.forecasts import forecast, price_of, reference, throughput
from kvstore.course.capstone.score import (
    Plan,
    Score,
    keep,
    name_station,
    plan,
    reveal,
    score_plan,
    scoreboard,
)
from kvstore.course.capstone.trial import PROBE_CALLS, ProbeSpent, probing, run_design, serving_case

__all__ = [
    "NAMED",
    "PROBE_CALLS",
    "STATIONS",
    "Case",
    "Design",
    "DesignRefused",
    "Plan",
    "Price",
    "ProbeSpent",
    "Score",
    "Target",
    "case",
    "forecast",
    "keep",
    "name_station",
    "plan",
    "price_of",
    "probing",
    "reference",
    "reveal",
    "run_design",
    "score_plan",
    "scoreboard",
    "serving_case",
    "throughput",
]
