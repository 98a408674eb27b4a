"""A service nobody has seen before, to be probed, predicted and changed: lesson 10.

service   what is told of a service, what is not, and its target
draw      cases from a seed, each bound by another station
choice    a design: how to call, and changes that cost days
forecasts what a design will give, and the cheapest that gives enough
running   the service itself: visited, and tried with a design
score     what a plan is worth, line by line
kept      what was committed to, and how the tries came out
"""

from kvstore.course.design.choice import Design, DesignRefused
from kvstore.course.design.draw import NAMED, case
from kvstore.course.design.forecasts import forecast, price_of, reference, throughput
from kvstore.course.design.kept import keep, name_station, plan, reveal, scoreboard
from kvstore.course.design.running import PROBE_CALLS, ProbeSpent, probing, served, tried
from kvstore.course.design.score import Plan, Score, scored
from kvstore.course.design.service import STATIONS, Case, Price, Target

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
    "scoreboard",
    "scored",
    "served",
    "throughput",
    "tried",
]
