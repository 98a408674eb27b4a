"""What a run shows: tables and figures, by topic.

A table has units in its headings and four significant digits. A figure draws predictions as lines
and measurements as dots. It draws on the axes it is given and makes no run.

style             the look of figures, and the forms of runs and predictions
stations          the drawing at the top of a lesson; what each station lets through; parts of a
                  run: time at each station, CPU time, kinds of operation, three counts
throughput        of runs, of steps, and by the number in flight: bounds, saturation, models
timelines         one run from its start to its end; single calls
scaling           messages of many operations, commits of many writes; the number of servers,
                  and the slowest of several
ramp_up           users who join one after the other
overload          bursts, goodput, retries, adaptive limits
load_tests        a load test of any service, and two clients in the layout of h2load's table
"""

from kvstore.course.rendering import captioned
from kvstore.course.views.load_tests import (
    h2load_table,
    levels_table,
    plot_levels,
    plot_side_by_side,
    side_by_side_table,
)
from kvstore.course.views.overload import (
    collections_table,
    crowd_table,
    endings_table,
    goodput_by_offered_table,
    latency_from_table,
    memory_in_burst_table,
    plot_attempts_over_time,
    plot_collections,
    plot_endings,
    plot_goodput_by_offered,
    plot_latency_from,
    plot_limit_over_time,
    plot_memory_in_burst,
    plot_turns,
)
from kvstore.course.views.ramp_up import (
    plot_residence_in_climb,
    plot_threads_in_climb,
    plot_throughput_in_climb,
    ramp_up_table,
)
from kvstore.course.views.scaling import (
    plot_moved_keys,
    plot_residence_by_batch,
    plot_simulated_over_time,
    plot_slow_by_hedging,
    plot_slow_by_servers,
    plot_throughput_by_batch,
    plot_throughput_by_commit,
    plot_throughput_by_servers,
    throughput_by_batch_table,
)
from kvstore.course.views.stations import (
    cost_table,
    counting_table,
    little_by_station_table,
    plot_ceilings,
    plot_mix,
    plot_time_by_station,
    time_by_station_table,
)
from kvstore.course.views.style import MB
from kvstore.course.views.throughput import (
    ladder_table,
    plot_by_setting,
    plot_ladder,
    plot_saturation,
    plot_throughput,
    plot_throughput_by_in_flight,
    throughput_table,
)
from kvstore.course.views.timelines import (
    plot_answered_over_time,
    plot_calls_over_time,
    plot_in_flight_over_time,
    plot_throughput_over_time,
)

__all__ = [
    "MB",
    "captioned",
    "collections_table",
    "cost_table",
    "counting_table",
    "crowd_table",
    "endings_table",
    "goodput_by_offered_table",
    "h2load_table",
    "ladder_table",
    "latency_from_table",
    "levels_table",
    "little_by_station_table",
    "memory_in_burst_table",
    "plot_answered_over_time",
    "plot_attempts_over_time",
    "plot_by_setting",
    "plot_calls_over_time",
    "plot_ceilings",
    "plot_collections",
    "plot_endings",
    "plot_goodput_by_offered",
    "plot_in_flight_over_time",
    "plot_ladder",
    "plot_latency_from",
    "plot_levels",
    "plot_limit_over_time",
    "plot_memory_in_burst",
    "plot_mix",
    "plot_moved_keys",
    "plot_residence_by_batch",
    "plot_residence_in_climb",
    "plot_saturation",
    "plot_side_by_side",
    "plot_simulated_over_time",
    "plot_slow_by_hedging",
    "plot_slow_by_servers",
    "plot_threads_in_climb",
    "plot_throughput",
    "plot_throughput_by_batch",
    "plot_throughput_by_commit",
    "plot_throughput_by_in_flight",
    "plot_throughput_by_servers",
    "plot_throughput_in_climb",
    "plot_throughput_over_time",
    "plot_time_by_station",
    "plot_turns",
    "ramp_up_table",
    "side_by_side_table",
    "throughput_by_batch_table",
    "throughput_table",
    "time_by_station_table",
]
