"""What lesson 07 and its further lessons ask."""

import math
from collections.abc import Mapping
from typing import Any

from kvstore.client import pacing
from kvstore.course.questions import CALLS, Option, PredictionQuestion, QuizQuestion, computed
from kvstore.measure import Run, during
from kvstore.measure.parts import During
from kvstore.model import Prediction, Station, bounds


def waiting_for(back: Any, run: Run) -> list[Station]:
    """Return the station of a call: the back end's delay, in a pool of threads or in a task.

    `back` is the server behind the front, or its settings. On the event loop, all calls may wait at
    once.
    """
    front = run.server.settings
    places = math.inf if front.use_asyncio else front.threads
    name = "event loop" if front.use_asyncio else "thread pool"
    return [Station(name, _delay_s(back), places)]


def _delay_s(back: Any) -> float:
    return float(back["read_delay_s"] if isinstance(back, Mapping) else back.settings.read_delay_s)


def all_there(back: Any, run: Run) -> During:
    """Return the run from two delays of the back end after the last user came, to its end."""
    joins = run.settings.get("joins") or [0.0]
    ends_s = run.settings["duration_s"]
    from_s = min(joins[-1] + 2 * _delay_s(back), ends_s - _delay_s(back))
    return during(run, from_s, ends_s)


def own_threads(run: Run) -> float:
    """Return the threads of the server process before the users came."""
    return float(run.samples["server_threads"].iloc[0])


def most_threads(run: Run) -> float:
    """Return the most threads that the server process had."""
    return float(run.samples["server_threads"].max())


PREDICTIONS = (
    PredictionQuestion(
        "07.pool_rate",
        "250 users, 200 threads, 0.4 s at the back end: how many calls per second?",
        measured=lambda back, run: all_there(back, run).answered_per_s,
        model=lambda back, run: bounds.closed_loop(run.in_flight, waiting_for(back, run)),
        main=True,
    ),
    PredictionQuestion(
        "07.loop_rate",
        "The event loop, 250 users, 0.4 s at the back end: how many calls per second?",
        measured=lambda back, run: all_there(back, run).answered_per_s,
        model=lambda back, run: bounds.closed_loop(run.in_flight, waiting_for(back, run)),
        main=True,
    ),
    PredictionQuestion(
        "07.loop_threads",
        "How many threads does the process with the event loop have, with 250 users?",
        unit="threads",
        measured=lambda run: most_threads(run),
        model=lambda run: Prediction(
            own_threads(run), "threads", "those it had before: a call that waits is a task"
        ),
    ),
    computed(
        "07.blocked_loop",
        "Each call blocks the event loop for 20 ms: how many calls per second?",
        CALLS,
    ),
    computed(
        "07.to_thread",
        "Each call blocks a thread of `asyncio.to_thread` for 20 ms: how many calls per second?",
        CALLS,
    ),
    computed(
        "07.search_python",
        "Eight threads, a search in Python: how many times the throughput of one?",
        "times",
    ),
    computed(
        "07.search_sqlite",
        "Eight threads, a search in SQLite: how many times the throughput of one?",
        "times",
    ),
)

QUIZ = (
    QuizQuestion(
        "07.pool_time",
        "A back end takes 100 ms, and the pool has 50 threads. Each of 80 users sends the next "
        "call as soon as the reply has come. How long does a call take?",
        (
            Option("100 ms", why="Only a call that finds a free thread takes 100 ms. 30 wait."),
            Option(
                "160 ms",
                right=True,
                why="X = 50 / 0.1 s = 500 calls/s, so R = N/X = 80/500 s.",
            ),
            Option("180 ms", why="80 + 100 adds users to milliseconds. Compute X first, then N/X."),
        ),
    ),
    QuizQuestion(
        "07.cpu",
        "Each call computes for 20 ms in Python, and waits for nothing. What does an event loop "
        "gain over a pool?",
        (
            Option(
                "Much: no time is lost to switches between threads.",
                why="A switch takes microseconds. The call computes for 20,000 of them.",
            ),
            Option(
                "Almost nothing: at most 50 calls/s, as before.",
                right=True,
                why="await makes waiting cheap. Here no call waits, so X <= 1/D = 50 calls/s.",
            ),
            Option(
                "It depends on the number of users.",
                why="From two users on, one process computes all the time. More users only wait.",
            ),
        ),
    ),
    QuizQuestion(
        "07.block",
        "A coroutine of the server calls `time.sleep` for 0.1 s. What happens?",
        (
            Option(
                "Only that call takes 100 ms longer.",
                why="All other calls of the process wait for it, too.",
            ),
            Option(
                "All calls of the process stop for 100 ms.",
                right=True,
                why="There is one thread. What blocks it blocks all calls, so X <= 10 calls/s.",
            ),
            Option(
                "No other call is slower: other coroutines run meanwhile.",
                why="They run only where a coroutine awaits. `time.sleep` does not await; "
                "with `await` and `asyncio.sleep` they would run.",
            ),
        ),
    ),
)


USERS, CLIMB_S, THREADS = 250, 30.0, 200


def lost_to_limit(threads: int = THREADS, wait_s: float = 0.1) -> float:
    """Return the share of calls that a limit of threads takes from the published climb."""
    joins = list(pacing.joins(pacing.climb(0, USERS, steps=USERS, over_s=CLIMB_S)))
    limited, free = (
        bounds.calls(joins, [Station("wait", wait_s, places)], CLIMB_S).value
        for places in (threads, math.inf)
    )
    return 1 - limited / free


PART_QUIZ = (
    QuizQuestion(
        "07.part_lock",
        "A pool has 40 threads. A call reads a disk for 80 ms, and then holds one lock for 4 "
        "ms. 100 calls are in flight. What raises the throughput most?",
        (
            Option(
                "80 threads",
                why="The pool could pass 40 / 0.084 s = 476 calls/s. The lock passes only 250. "
                "More threads wait at the lock.",
            ),
            Option(
                "a lock that is held for 2 ms",
                right=True,
                why="The lock then passes 500 calls/s. After that the pool is the bottleneck, at "
                "40 / 0.082 s = 488.",
            ),
            Option(
                "twice as many calls in flight: 200",
                why="100 / 0.084 s is 1,190 calls/s, far above what the lock passes. The new "
                "calls wait.",
            ),
        ),
    ),
    QuizQuestion(
        "07.part_semaphore",
        "300 orders/s arrive at a client. It makes one call for each, and the server answers "
        "250 calls/s. You put a semaphore of 100 around the calls. Where do the 50/s go?",
        (
            Option(
                "Nowhere: the server is full now, so it answers 300/s.",
                why="A semaphore fills the server. It does not make its bottleneck faster.",
            ),
            Option(
                "They wait in the client, in front of the semaphore.",
                right=True,
                why="With λ > X, a queue grows somewhere. The semaphore moves it from the server "
                "to the client, and the client can slow its source down.",
            ),
            Option(
                "The semaphore refuses them.",
                why="A semaphore lets its callers wait. It refuses nothing.",
            ),
        ),
    ),
    QuizQuestion(
        "07.part_batch",
        "A client makes 4,000 unary calls/s and uses 0.98 of a core; the server uses 0.30. In"
        " the client, a message costs a = 240 µs and an operation b = 5 µs. You put 10 "
        "operations into each message. How many operations/s at most?",
        (
            Option(
                "4,000: the client is full",
                why="The client's time for a *message* is nearly all of it. A batch shares this "
                "time among 10 operations.",
            ),
            Option(
                "about 34,000",
                right=True,
                why="A message now costs 240 + 10 · 5 = 290 µs: 10 / 290 µs. Measure the server "
                "again, too: it may be the bottleneck next.",
            ),
            Option(
                "40,000: ten times as many",
                why="Each operation still costs its b: a message of 10 takes 290 µs, and not the "
                "245 µs of before.",
            ),
        ),
    ),
    QuizQuestion(
        "07.part_connections",
        "A call that never waits takes 100 ms. The bottleneck needs 0.2 ms for a call. A "
        "connection may have 50 streams. How many connections fill the bottleneck?",
        (
            Option(
                "1: HTTP/2 multiplexes",
                why="One connection has at most 50 calls in flight: 50 / 0.1 s = 500 calls/s. The"
                " bottleneck could pass 5,000.",
            ),
            Option(
                "10",
                right=True,
                why="N* = 100 / 0.2 = 500 calls in flight, and 500 / 50 = 10 connections.",
            ),
            Option(
                "500: one for each call",
                why="500 *calls* have to be in flight. A connection carries 50 of them.",
            ),
        ),
    ),
    QuizQuestion(
        "07.part_next",
        "A front has 50 threads, and each call waits 200 ms for a back end. You replace the "
        "threads by an event loop. With 1,000 users, a lock in the back end is now always "
        "busy, at 400 calls/s. How long does a call take?",
        (
            Option(
                "200 ms: nothing waits for a thread any more",
                why="That is a call that never waits. Now the calls wait for the lock, the next "
                "bottleneck.",
            ),
            Option(
                "2.5 s",
                right=True,
                why="R = N/X = 1,000 / 400. The bound c/S = 250 calls/s is gone, and the lock "
                "sets the throughput.",
            ),
            Option(
                "4 s",
                why="That is 1,000 / 250, the time with the pool.",
            ),
        ),
    ),
)
