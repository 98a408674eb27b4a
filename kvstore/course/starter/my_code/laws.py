"""My laws: what should happen, computed before the run."""

import heapq
import itertools
import math
import random


# The course's version: yours takes its place when it has passed its check.
def mean_in_flight(calls, window_s):
    """Return L: all time in flight, divided by the window. `calls` is a table with a row a call."""
    return float((calls["done_s"] - calls["sent_s"]).sum()) / window_s


# The course's version: yours takes its place when it has passed its check.
def utilisation(calls_per_s, cpu_us_per_call):
    """Return U = X D, the share of one core in use; above 1, one core is not enough."""
    return calls_per_s * cpu_us_per_call / 1e6


# The course's version: yours takes its place when it has passed its check.
def seconds_until_full(ceiling_mb, base_mb, kb_per_call, sent_per_s, answered_per_s):
    """Return the seconds until a sender without a limit has filled its memory."""
    if sent_per_s <= answered_per_s:
        return math.inf
    growth_mb_per_s = kb_per_call / 1000 * (sent_per_s - answered_per_s)
    return (ceiling_mb - base_mb) / growth_mb_per_s


# The course's version: yours takes its place when it has passed its check.
def hot_key_bound(key_shares, write_share, write_delay_s):
    """Return the calls per second that the hottest key allows: one write of it at a time."""
    hottest = max(key_shares.values()) * write_share
    return 1 / (hottest * write_delay_s) if hottest else math.inf


# The course's version: yours takes its place when it has passed its check.
def in_order(calls):
    """Return when each reply leaves, if none may leave before the replies to earlier requests."""
    return list(calls["done_s"].cummax())


# The course's version: yours takes its place when it has passed its check.
def commit_indices(acknowledged):
    """Return after each acknowledgement the highest index up to which no entry is missing."""
    known, index, over_time = set(), 0, []
    for entry in acknowledged:
        known.add(entry)
        while index + 1 in known:
            index += 1
        over_time.append(index)
    return over_time


# The course's version: yours takes its place when it has passed its check.
def response_times(arrivals_s, work_s, workers=1):
    """Return each call's seconds from its arrival to its end: first come, first served."""
    free_s = [0.0] * workers
    times_s = []
    for arrival_s, work in zip(arrivals_s, work_s):
        begin_s = max(arrival_s, heapq.heappop(free_s))
        heapq.heappush(free_s, begin_s + work)
        times_s.append(begin_s + work - arrival_s)
    return times_s


# The course's version: yours takes its place when it has passed its check.
def response_times_by(arrivals_s, work_s, choose):
    """Return each call's seconds from its arrival to its end: one worker, and `choose` says which
    of the waiting calls is next."""
    times_s, waiting, now_s, coming = [0.0] * len(arrivals_s), [], 0.0, 0
    while waiting or coming < len(arrivals_s):
        if not waiting:
            now_s = max(now_s, arrivals_s[coming])
        while coming < len(arrivals_s) and arrivals_s[coming] <= now_s:
            waiting.append(coming)
            coming += 1
        call = waiting.pop(choose([(arrivals_s[n], work_s[n]) for n in waiting]))
        now_s += work_s[call]
        times_s[call] = now_s - arrivals_s[call]
    return times_s


# The course's version: yours takes its place when it has passed its check.
def next_limit(limit, shortest_s, typical_s):
    """Return the next limit of the calls in flight, from the times of calls under this one."""
    queued = limit * (1 - shortest_s / typical_s)
    return limit + 1 if queued <= 2 else max(1, 3 * limit // 4)


# The course's version: yours takes its place when it has passed its check.
def knee(levels):
    """Return N* from rows of calls in flight, calls/s and seconds."""
    return min(r for _, _, r in levels) * max(x for _, x, _ in levels)


# The course's version: yours takes its place when it has passed its check.
def p99_at(rate_per_s, work_s, workers, calls=5_000):
    """Return the p99 of the response times of so many random arrivals, in seconds."""
    gaps_s = [random.expovariate(rate_per_s) for _ in range(calls)]
    drawn_s = random.choices(work_s, k=calls)
    times_s = response_times(list(itertools.accumulate(gaps_s)), drawn_s, workers)
    return sorted(times_s)[int(0.99 * calls)]
