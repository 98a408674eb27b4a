"""What this machine can show: its noise, its price of a call, and which lessons fit it.

facts      what runs say of the machine: host, CPU per call, timer
noise      how far identical runs differ, and a verdict
fit        lesson by lesson: what it needs, what is here, up to which size
pictures   the figures, each beside a table of `facts` or `noise`
"""

from kvstore.course.machine.facts import (
    cpu_per_call,
    cpu_stations,
    host,
    round_trips,
    timer,
    wanted_per_core,
)
from kvstore.course.machine.fit import lessons
from kvstore.course.machine.noise import Noise, noise, repeats
from kvstore.course.machine.pictures import (
    draw_cpu_per_call,
    draw_path,
    draw_repeats,
    draw_round_trips,
    draw_timer,
)
from kvstore.measure.price import cores_busy, price_s

__all__ = [
    "Noise",
    "cores_busy",
    "cpu_per_call",
    "cpu_stations",
    "draw_cpu_per_call",
    "draw_path",
    "draw_repeats",
    "draw_round_trips",
    "draw_timer",
    "host",
    "lessons",
    "noise",
    "price_s",
    "repeats",
    "round_trips",
    "timer",
    "wanted_per_core",
]
