"""What lesson 09 and its further lessons ask."""

import heapq
import math
import random
from typing import Final

from kvstore.course.questions import Answer
from kvstore.measure import Run, goodput
from kvstore.model import Prediction, Station, overload


def lock(run: Run) -> Station:
    """Return the station of the burst: the global lock, held for one write."""
    return Station("lock", run.server.settings.write_delay_s)


def pool(run: Run) -> Station:
    """Return the station of the open loop: the thread pool, with the disk time of a read."""
    settings = run.server.settings
    return Station("thread pool", settings.read_delay_s, settings.threads)


def limit(run: Run) -> float:
    """Return the most calls that the server accepts at once; infinite without a limit."""
    most = run.server.settings.max_concurrent_rpcs
    return math.inf if most is None else float(most)


def in_server_s(run: Run, share: float = 0.99) -> float:
    """Return the seconds in the server that a share of the answered calls did not exceed."""
    calls = run.calls[run.calls["status"] == "OK"]
    return float((calls["pool_s"] + calls["lock_s"] + calls["disk_s"]).quantile(share))


def answered_s(run: Run) -> float:
    """Return the seconds until the last call of a burst was answered."""
    return float(run.records["done_s"].max())


def offered_per_s(run: Run) -> float:
    """Return the arrival rate of an open loop."""
    return goodput(run).offered_per_s


def _goodput(run: Run, offered: float | None = None) -> Prediction:
    return overload.goodput(
        offered_per_s(run) if offered is None else offered,
        pool(run),
        deadline_s=run.settings["deadline_s"],
        offered_for_s=_offered_for_s(run),
        limit=limit(run),
        from_s=settled_from_s(run),
    )


def _offered_for_s(run: Run) -> float:
    """Return how long calls were sent: as set, or until the last due time."""
    return float(run.settings.get("duration_s") or run.records["due_s"].max())


def settled_from_s(run: Run) -> float:
    """Return from when on the calls of an open loop count: 1 s in a run of 3 s."""
    return _offered_for_s(run) / 3


def settled_per_s(run: Run) -> float:
    """Return the goodput of an open loop without its beginning, when the queue was empty."""
    return goodput(run, from_s=settled_from_s(run)).in_time_per_s


def simulated_in_time_per_s(
    offered_per_s: float, threads: int, mean_s: float, deadline_s: float, limit: int
) -> float:
    """Return the goodput of exponential work in the long run, from a simulation of 60,000 calls.

    First come, first served. A call that waits until its deadline leaves without a thread, and a
    call that was begun keeps its thread to its end.
    """
    draw = random.Random()
    free_s, leave_s = [0.0] * threads, list[float]()  # both are heaps
    now_s, in_time, calls = 0.0, 0, 60_000
    for _ in range(calls):
        now_s += draw.expovariate(offered_per_s)
        while leave_s and leave_s[0] <= now_s:
            heapq.heappop(leave_s)
        if len(leave_s) >= limit:
            continue
        begin_s, latest_s = max(now_s, free_s[0]), now_s + deadline_s
        end_s = latest_s
        if begin_s < latest_s:
            end_s = begin_s + draw.expovariate(1 / mean_s)
            heapq.heapreplace(free_s, end_s)
            in_time += end_s <= latest_s
        heapq.heappush(leave_s, end_s)
    return in_time / now_s


def _varied(run: Run) -> Prediction:
    station, most = pool(run), int(limit(run))
    deadline_s = run.settings["deadline_s"]
    in_time_per_s = simulated_in_time_per_s(
        2 * station.most_per_s, int(station.servers), station.demand_s, deadline_s, most
    )
    reason = (
        f"a simulation: behind {most} calls of work that varies, about half end after the deadline"
    )
    return Prediction(in_time_per_s, "calls/s", reason, station.name)


ANSWERS: Final = {
    "09.behind_pool": Answer(
        lambda answered: answered,
        lambda answered: Prediction(
            200.0, "calls", "at most 8 calls are in the interceptor at once: it refuses none"
        ),
    ),
    "09.burst": Answer(answered_s, lambda run: overload.drain_burst(run.issued, lock(run))),
    "09.limit_wait": Answer(
        in_server_s,
        lambda run: Prediction(
            limit(run) / lock(run).most_per_s,
            "s",
            f"{limit(run):g} calls in the server, which answers {lock(run).most_per_s:g}/s:"
            " limit / X",
            "concurrency limit",
        ),
    ),
    "09.curve": Answer(
        lambda runs: {offered_per_s(run): settled_per_s(run) for run in runs},
        lambda runs: {x: _goodput(runs[0], x).value for x in range(40, 361, 10)},
    ),
    "09.goodput_limit": Answer(settled_per_s, _goodput),
    "09.varied": Answer(settled_per_s, _varied),
    "09.limit": Answer(lambda settled, knee: settled, lambda settled, knee: knee),
}


def grown_mb(run: Run) -> float:
    """Return how many MB the server's memory grew in the run."""
    held_bytes = run.samples["server_rss_bytes"]
    return float(held_bytes.max() - held_bytes.iloc[0]) / 1e6


def wasted_share(run: Run) -> float:
    """Return the share of the operations that the server did too late."""
    outcomes = goodput(run)
    done = outcomes.wasted + outcomes.in_time_per_s * _offered_for_s(run)
    return outcomes.wasted / done if done else 0.0
