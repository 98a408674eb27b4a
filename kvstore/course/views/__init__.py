"""What a run shows: tables and figures, by topic.

A table has units in its headings and four significant digits. A figure draws predictions as lines
and measurements as dots. It draws on the axes it is given and makes no run.

style             the look of figures, and the forms of runs and predictions
stations          the drawing at the top of a lesson; what each station lets through; parts of a
                  run: time at each station, CPU time, kinds of operation, three counts
throughput        of runs, of steps, and by the number in flight: bounds, saturation, models
timelines         one run from its start to its end; single calls
ribbons           many simulated results, their law, and the one real run
calibration       predicted over measured, of a learner over the course, and of a class

What one lesson draws lies in its room, in `figures`.
"""

from kvstore.course.rendering import captioned
from kvstore.course.views.ribbons import plot_ribbon
from kvstore.course.views.stations import (
    little_by_station_table,
    plot_ceilings,
    plot_mix,
    plot_time_by_station,
    time_by_station_table,
)
from kvstore.course.views.style import MB
from kvstore.course.views.throughput import (
    plot_ladder,
    plot_measured_over_predicted,
    plot_throughput_by_in_flight,
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
    "little_by_station_table",
    "plot_answered_over_time",
    "plot_calls_over_time",
    "plot_ceilings",
    "plot_in_flight_over_time",
    "plot_ladder",
    "plot_measured_over_predicted",
    "plot_mix",
    "plot_ribbon",
    "plot_throughput_by_in_flight",
    "plot_throughput_over_time",
    "plot_time_by_station",
    "time_by_station_table",
]
