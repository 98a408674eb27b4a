"""The figures: each takes runs and predictions, draws on axes with units, and runs nothing.

Predicted is always a line, measured always dots. `tables` holds the numbers of each
figure under the same name and with the same arguments.
"""

from kvstore.course.figures.bars import calls_over_time, reply_order
from kvstore.course.figures.batches import residence_by_batch, throughput_by_batch
from kvstore.course.figures.beside import side_by_side
from kvstore.course.figures.climbs import (
    residence_in_climb,
    threads_in_climb,
    throughput_in_climb,
)
from kvstore.course.figures.curves import throughput_by_in_flight
from kvstore.course.figures.designs import promises, score
from kvstore.course.figures.growth import memory
from kvstore.course.figures.kept import answered_within, throughput_by_commit
from kvstore.course.figures.levels import in_flight_over_time, throughput_over_time
from kvstore.course.figures.overload import (
    attempts_over_time,
    goodput_by_offered,
    latency_from,
    limit_over_time,
)
from kvstore.course.figures.rates import ladder, throughput
from kvstore.course.figures.saturation import saturation
from kvstore.course.figures.servers import (
    simulated_over_time,
    slow_by_servers,
    throughput_by_servers,
)
from kvstore.course.figures.shares import mix, time_by_station
from kvstore.course.figures.turns import collections, endings, turns
from kvstore.course.figures.waits import latency_by_answer

__all__ = [
    "answered_within",
    "attempts_over_time",
    "calls_over_time",
    "collections",
    "endings",
    "goodput_by_offered",
    "in_flight_over_time",
    "ladder",
    "latency_by_answer",
    "latency_from",
    "limit_over_time",
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
