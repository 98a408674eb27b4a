"""The numbers of each figure as a table: same name, same arguments.

Every number has its unit in the heading, and four significant digits.
"""

from kvstore.course.tables.batches import residence_by_batch, throughput_by_batch
from kvstore.course.tables.calls import calls_over_time, reply_order
from kvstore.course.tables.climbs import (
    residence_in_climb,
    summary_report,
    threads_in_climb,
    throughput_in_climb,
)
from kvstore.course.tables.designs import promises, score
from kvstore.course.tables.kept import answered_within, throughput_by_commit
from kvstore.course.tables.layout import MB
from kvstore.course.tables.over_time import (
    in_flight_over_time,
    latency_by_answer,
    memory,
    throughput_over_time,
)
from kvstore.course.tables.overload import (
    attempts_over_time,
    crowd,
    goodput_by_offered,
    latency_from,
    limit_over_time,
)
from kvstore.course.tables.rates import ladder, throughput, throughput_by_in_flight
from kvstore.course.tables.saturation import saturation
from kvstore.course.tables.servers import (
    simulated_over_time,
    slow_by_servers,
    throughput_by_servers,
)
from kvstore.course.tables.shares import cost, little_by_station, mix, time_by_station
from kvstore.course.tables.spread import layout, like_h2load, side_by_side
from kvstore.course.tables.turns import collections, endings, turns

__all__ = [
    "MB",
    "answered_within",
    "attempts_over_time",
    "calls_over_time",
    "collections",
    "cost",
    "crowd",
    "endings",
    "goodput_by_offered",
    "in_flight_over_time",
    "ladder",
    "latency_by_answer",
    "latency_from",
    "layout",
    "like_h2load",
    "limit_over_time",
    "little_by_station",
    "memory",
    "mix",
    "promises",
    "reply_order",
    "residence_by_batch",
    "residence_in_climb",
    "saturation",
    "score",
    "side_by_side",
    "simulated_over_time",
    "slow_by_servers",
    "summary_report",
    "threads_in_climb",
    "throughput",
    "throughput_by_batch",
    "throughput_by_commit",
    "throughput_by_in_flight",
    "throughput_by_servers",
    "throughput_in_climb",
    "throughput_over_time",
    "time_by_station",
    "turns",
]
