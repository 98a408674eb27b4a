"""What a run shows: a table and a figure for each topic.

`throughput_table` returns the numbers that `plot_throughput` draws; both take the same arguments.
A table has units in its headings and four significant digits. A figure draws predictions as lines
and measurements as dots. It draws on the axes it is given and makes no run.

style, alt_text   the look of figures and the forms of runs and predictions; figures in words
stations          the drawing at the top of a lesson; what each station lets through
throughput        of runs, of steps, and by the number in flight: bounds, saturation, models
timelines         one run from its start to its end; single calls and the order of replies
breakdown         parts of a run: stations, CPU time, kinds of operation, three counts
batching          messages of many operations, commits of many writes
ramp_up           users who join one after the other
overload          bursts, goodput, retries, adaptive limits
servers           throughput by the number of servers, and the slowest of several
load_tests        a load test of any service, and two clients in the layout of h2load's table
"""

from kvstore.course.views.alt_text import captioned
from kvstore.course.views.batching import (
    plot_residence_by_batch,
    plot_throughput_by_batch,
    plot_throughput_by_commit,
    residence_by_batch_table,
    throughput_by_batch_table,
    throughput_by_commit_table,
)
from kvstore.course.views.breakdown import (
    cost_table,
    counting_table,
    little_by_station_table,
    mix_table,
    plot_mix,
    plot_time_by_station,
    time_by_station_table,
)
from kvstore.course.views.load_tests import (
    h2load_table,
    latency_by_quantile_table,
    layout_table,
    levels_table,
    plot_latency_by_quantile,
    plot_levels,
    plot_residence_by_level,
    plot_side_by_side,
    residence_by_level_table,
    side_by_side_table,
)
from kvstore.course.views.overload import (
    attempts_over_time_table,
    collections_table,
    crowd_table,
    endings_table,
    goodput_by_offered_table,
    latency_from_table,
    limit_over_time_table,
    memory_in_burst_table,
    plot_attempts_over_time,
    plot_collections,
    plot_endings,
    plot_goodput_by_offered,
    plot_latency_from,
    plot_limit_over_time,
    plot_memory_in_burst,
    plot_turns,
    turns_table,
)
from kvstore.course.views.ramp_up import (
    plot_residence_in_climb,
    plot_threads_in_climb,
    plot_throughput_in_climb,
    ramp_up_table,
    residence_in_climb_table,
    threads_in_climb_table,
    throughput_in_climb_table,
)
from kvstore.course.views.servers import (
    moved_keys_table,
    plot_moved_keys,
    plot_simulated_over_time,
    plot_slow_by_hedging,
    plot_slow_by_servers,
    plot_throughput_by_servers,
    simulated_over_time_table,
    slow_by_hedging_table,
    slow_by_servers_table,
    throughput_by_servers_table,
)
from kvstore.course.views.stations import ceilings_table, plot_ceilings
from kvstore.course.views.style import MB
from kvstore.course.views.throughput import (
    ladder_table,
    plot_ladder,
    plot_saturation,
    plot_throughput,
    plot_throughput_by_in_flight,
    saturation_table,
    throughput_by_in_flight_table,
    throughput_table,
)
from kvstore.course.views.timelines import (
    answered_over_time_table,
    calls_over_time_table,
    in_flight_over_time_table,
    latency_by_answer_table,
    memory_table,
    plot_answered_over_time,
    plot_calls_over_time,
    plot_in_flight_over_time,
    plot_latency_by_answer,
    plot_memory,
    plot_reply_order,
    plot_throughput_over_time,
    reply_order_table,
    throughput_over_time_table,
)

__all__ = [
    "MB",
    "answered_over_time_table",
    "attempts_over_time_table",
    "calls_over_time_table",
    "captioned",
    "ceilings_table",
    "collections_table",
    "cost_table",
    "counting_table",
    "crowd_table",
    "endings_table",
    "goodput_by_offered_table",
    "h2load_table",
    "in_flight_over_time_table",
    "ladder_table",
    "latency_by_answer_table",
    "latency_by_quantile_table",
    "latency_from_table",
    "layout_table",
    "levels_table",
    "limit_over_time_table",
    "little_by_station_table",
    "memory_in_burst_table",
    "memory_table",
    "mix_table",
    "moved_keys_table",
    "plot_answered_over_time",
    "plot_attempts_over_time",
    "plot_calls_over_time",
    "plot_ceilings",
    "plot_collections",
    "plot_endings",
    "plot_goodput_by_offered",
    "plot_in_flight_over_time",
    "plot_ladder",
    "plot_latency_by_answer",
    "plot_latency_by_quantile",
    "plot_latency_from",
    "plot_levels",
    "plot_limit_over_time",
    "plot_memory",
    "plot_memory_in_burst",
    "plot_mix",
    "plot_moved_keys",
    "plot_reply_order",
    "plot_residence_by_batch",
    "plot_residence_by_level",
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
    "reply_order_table",
    "residence_by_batch_table",
    "residence_by_level_table",
    "residence_in_climb_table",
    "saturation_table",
    "side_by_side_table",
    "simulated_over_time_table",
    "slow_by_hedging_table",
    "slow_by_servers_table",
    "threads_in_climb_table",
    "throughput_by_batch_table",
    "throughput_by_commit_table",
    "throughput_by_in_flight_table",
    "throughput_by_servers_table",
    "throughput_in_climb_table",
    "throughput_over_time_table",
    "throughput_table",
    "time_by_station_table",
    "turns_table",
]
