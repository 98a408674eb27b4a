"""What lesson 09 and its further lessons ask."""

import heapq
import math
import random

from kvstore.course.questions import (
    Curve,
    Option,
    PredictionQuestion,
    QuizQuestion,
    computed,
    number_question,
)
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
    found = simulated_in_time_per_s(
        2 * station.most_per_s, int(station.servers), station.demand_s, deadline_s, most
    )
    reason = (
        f"a simulation: behind {most} calls of work that varies, about half end after the deadline"
    )
    return Prediction(found, "calls/s", reason, station.name)


PREDICTIONS = (
    PredictionQuestion(
        "09.behind_pool",
        "200 calls at once, 8 threads, an interceptor with a limit of 20: how many end OK?",
        unit="calls",
        measured=lambda answered: answered,
        model=lambda answered: Prediction(
            200.0, "calls", "at most 8 calls are in the interceptor at once: it refuses none"
        ),
        main=True,
    ),
    PredictionQuestion(
        "09.burst",
        "The burst, no limit, 400 threads: how many seconds until the last call is answered?",
        unit="s",
        measured=answered_s,
        model=lambda run: overload.drain_burst(run.issued, lock(run)),
        main=True,
    ),
    PredictionQuestion(
        "09.limit_wait",
        "At most 40 calls in the server: how many seconds is the slowest accepted call in it?",
        unit="s",
        measured=in_server_s,
        model=lambda run: Prediction(
            limit(run) / lock(run).most_per_s,
            "s",
            f"{limit(run):g} calls in the server, which answers {lock(run).most_per_s:g}/s:"
            " limit / X",
            "concurrency limit",
        ),
    ),
    Curve(
        "09.curve",
        "No limit. Of the calls due after the first second, how many per second are in time?",
        over="offered, λ (calls/s)",
        xs=(40, 80, 120, 160, 200, 240, 280, 320, 360),
        most=360,
        measured=lambda runs: {offered_per_s(run): settled_per_s(run) for run in runs},
        model=lambda runs: {x: _goodput(runs[0], x).value for x in range(40, 361, 10)},
    ),
    PredictionQuestion(
        "09.goodput_limit",
        "Twice the capacity, at most 20 calls in the server: how many per second are in time?",
        measured=settled_per_s,
        model=_goodput,
    ),
    PredictionQuestion(
        "09.varied",
        "Exponential work, twice the capacity, at most 40 calls in the server: how many per second"
        " are in time?",
        measured=settled_per_s,
        model=_varied,
    ),
    # further lessons
    PredictionQuestion(
        "09.limit",
        "The client finds its own limit: where does it settle?",
        unit="calls",
        measured=lambda settled, knee: settled,
        model=lambda settled, knee: knee,
    ),
    computed(
        "09.limit_drift",
        "Reads take three times as long by and by: where does the limit settle?",
        "calls",
    ),
)

QUIZ = (
    number_question(
        "09.accepted",
        "A server answers {x:,}/s and accepts at most {limit} calls at once. How many ms is an"
        " accepted call in it, at most?",
        "ms",
        (lambda x, limit: 1e3 * limit / x, "About limit/X: at most so many calls are before it."),
        (
            lambda x, limit: 1e3 / x,
            "That is the time of one call, and others are before it.",
        ),
        (lambda x, limit: limit, "Those are calls. In which time does the server answer them?"),
        (lambda x, limit: x / limit, "That is X/limit: a larger limit would mean a shorter wait."),
        x=(2_000, 800, 500),
        limit=(100, 200, 400),
    ),
    QuizQuestion(
        "09.more_threads",
        "A burst waits for one lock. You give the server 1,000 threads more. What changes?",
        (
            Option("It answers the burst sooner.", why="N/X has no number of threads in it."),
            Option(
                "The calls wait at the lock, and not in the pool's queue.",
                right=True,
                why="The queue moves. It is as long as before, and each thread needs memory, too.",
            ),
            Option("Fewer calls are lost.", why="Nothing was lost: no limit refused a call."),
        ),
    ),
    QuizQuestion(
        "09.limit_too_large",
        "A server answers 200/s, callers wait for 0.5 s, and the limit is 1,000 calls. Under "
        "overload ...",
        (
            Option(
                "... most answers come too late, and the server looks busy.",
                right=True,
                why="At most 200/s · 0.5 s = 100 calls can be in time. gRPC skips a call whose "
                "deadline has passed. So it begins those that are about to be late.",
            ),
            Option(
                "... it refuses in time. That is the purpose of a limit.",
                why="It refuses from 1,000 on, and call number 101 is too late already.",
            ),
            Option(
                "... all calls are refused.",
                why="A call is accepted when another one ends: 200 in each second.",
            ),
        ),
    ),
    QuizQuestion(
        "09.deadline_passed",
        "A handler works for 2 s. Its caller gave up after 1 s. What does a gRPC server with "
        "threads do?",
        (
            Option(
                "It stops the handler at the deadline.",
                why="No thread can be stopped from outside. The handler has to look.",
            ),
            Option(
                "It finishes the work, and no caller gets the result.",
                right=True,
                why="The caller has DEADLINE_EXCEEDED already. Look at the time before each step.",
            ),
            Option(
                "It sends the reply late, and the caller takes it.",
                why="The call has ended for the caller. A late reply is dropped.",
            ),
        ),
    ),
)


def grown_mb(run: Run) -> float:
    """Return how many MB the server's memory grew in the run."""
    held_bytes = run.samples["server_rss_bytes"]
    return float(held_bytes.max() - held_bytes.iloc[0]) / 1e6


def wasted_share(run: Run) -> float:
    """Return the share of the operations that the server did too late."""
    found = goodput(run)
    done = found.wasted + found.in_time_per_s * _offered_for_s(run)
    return found.wasted / done if done else 0.0
