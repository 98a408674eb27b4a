"""Players of the capstone on drawn services: a scripted learner, naive designs, random purchases.

The runs are computed, without a process. The scripted learner follows the method of the lessons and
sees only what a learner sees. Its code names no case.
"""

import itertools
import math
import random

from kvstore.course.lessons.lesson_15.judge.cases import CHANGES
from kvstore.course.lessons.lesson_15.judge.sitting import drawn, is_passed, lines_of
from kvstore.course.lessons.lesson_15.judge.traffic import simulate

SHARES = {"reads": 0.5, "updates": 0.3, "creates": 0.2}
READS, CREATES, HOT = 0.5, 0.2, 0.4
"""Shares of the traffic, from the brief: reads, creates, and calls for the hottest item."""
SHORTENED = ("compress", "faster disk", "stop the retries")
"""Changes that shorten a call. The others let more calls be served at a time."""


class Computed:
    """A service whose runs are computed at once: it has what the learner uses of `Service`."""

    def __init__(self, sitting):
        self._sitting = sitting
        self.brief = sitting.brief()
        self.name = sitting.name

    def buy(self, *changes):
        self._sitting.buy(changes)

    def predict(self, **values):
        for of, value in values.items():
            self._sitting.predict(of, value)

    def measure(self, **load):
        return self._run("measure", load)

    def run_start(self):
        return self._run("start", {})

    def run(self):
        """Run the result with the plain client; no fault happens."""
        self._run("result", {})

    def _run(self, what, options):
        network, planned, _ = self._sitting.begin(what, options)
        result = simulate(network, planned, self._sitting._running[1])
        self._sitting.end(result)
        return result


def learner(service):
    """Play by the lessons: vary one thing at a time, and ask which bounds explain all ceilings."""
    most = service.brief["most_in_flight"]
    alone = {kind: service.measure(in_flight=1, only=kind) for kind in SHARES}
    length_s = {kind: each.mean_s for kind, each in alone.items()}
    length_s["all"] = sum(SHARES[kind] * length_s[kind] for kind in SHARES)
    full = service.measure(in_flight=most)
    ceilings = {
        name: service.measure(in_flight=most, **load).throughput_per_s
        for name, load in EXPERIMENTS.items()
    }
    ceilings["all"] = full.throughput_per_s
    seen = full.processor_busy, length_s, most
    ranked, per_s = explained(ceilings, *seen)
    if len(ranked) == 1 and ranked[0] in RELIEFS:
        name, load = RELIEFS[ranked[0]]
        ceilings[name] = service.measure(in_flight=most, **load).throughput_per_s
        ranked, per_s = explained(ceilings, *seen)
    brief = service.brief
    change_of = {station: change for change, (station, _) in CHANGES.items()}
    service.name(ranked[0], ranked[1] if len(ranked) > 1 else None)
    service.predict(start=ceilings["all"])
    service.run_start()
    bought = [change_of[name] for name in ranked]
    service.buy(*bought)
    saved_s = sum(7 / 8 / per_s for change in bought if change in SHORTENED)
    longest_s = max(length_s.values())
    result = 0.93 * most / (length_s["all"] - saved_s)
    service.predict(result=1.15 * longest_s if brief["open_loop"] else result)
    service.run()


EXPERIMENTS = {
    "reads": {"only": "reads"},
    "updates": {"only": "updates"},
    "creates": {"only": "creates"},
    "one item": {"items": "one"},
    "large": {"value_bytes": 16_384},
    "one server": {"servers": 1},
    "ten attempts": {"proxy_attempts": 10},
}
"""Each one stresses or relieves few stations."""
RELIEFS = {
    "message size": ("small", {"value_bytes": 64}),
    "hot key": ("spread", {"items": "spread"}),
    "stream cap": ("four connections", {"connections": 4}),
    "retries": ("one attempt", {"proxy_attempts": 1}),
}
"""What shows the station behind these, if nothing else does."""
_NEVER = math.inf
FACTORS = {
    "disk": {"reads": READS, "updates": _NEVER, "creates": _NEVER},
    "commit log": {"reads": _NEVER, "updates": 1 - READS, "creates": 1 - READS},
    "back end": {"reads": _NEVER, "updates": _NEVER, "creates": CREATES},
    "hot key": {"one item": HOT, "spread": _NEVER},
    "message size": {"large": 1 / 4, "small": _NEVER},
    "stream cap": {"one server": 1 / 2, "four connections": 4.0},
    "retries": {"ten attempts": 1 / 2, "one attempt": 5.0},
    "pool": {},
    "processor": {},
    "global lock": {},
}
"""What an experiment makes of the calls/s that a station lets through; 1 where nothing stands."""


def explained(ceilings, busy, length_s, most):
    """Return the one or two stations whose bounds fit all ceilings best, and the calls/s."""
    all_s = length_s["all"]

    def bound(station, experiment, per_s):
        factor = FACTORS[station].get(experiment, 1.0)
        if station in ("pool", "stream cap"):  # a limit on calls: c/D, with the D of these calls
            factor *= all_s / length_s.get(experiment, all_s)
        return factor * per_s

    def misfit(stations, rates):
        total = 0.0
        for name, measured in ceilings.items():
            limits = [bound(each, name, rate) for each, rate in zip(stations, rates, strict=True)]
            predicted = min([*limits, 0.95 * most / length_s.get(name, all_s)])
            total += min(1.0, abs(math.log(measured / predicted)))
        for each, rate in zip(stations, rates, strict=True):
            if each == "processor":
                total += 3 * abs(math.log(busy * rate / ceilings["all"]))
        return total + (0.5 if "processor" not in stations and busy > 0.6 else 0.0)

    x = ceilings["all"]
    found = []
    for first in FACTORS:
        for scale in (0.92, 0.96, 1.0, 1.04, 1.08, 1.12):
            found.append((misfit([first], [scale * x]), [first]))
            for then, ratio in itertools.product(FACTORS, (1.03, 1.08, 1.12, 1.16, 1.2)):
                if then != first:
                    rates = [scale * x, scale * ratio * x]
                    found.append((misfit([first, then], rates) + 0.1, [first, then]))
    return min(found)[1], x


def naive(service):
    """Change nothing and send as much as is allowed."""
    service.predict(result=100.0)  # a run needs a prediction; this one is a guess
    service.run()


def tempting(service):
    """Buy what is bought most often: threads and processor cores."""
    service.buy("more threads", "more cores")
    naive(service)


def at_random(service):
    """Buy as many changes as are allowed, at random."""
    service.buy(*random.Random(service.brief["id"]).sample(list(CHANGES), 2))
    naive(service)


def play(player, number):
    """Let a player play the practice case of this number; return its points, and what it passed."""
    sitting = drawn(number, learner=player.__name__)
    player(Computed(sitting))
    final = sitting.record["final"]
    return final["points"], final["met"], is_passed(lines_of(sitting.record))
