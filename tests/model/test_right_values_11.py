"""Lesson 11 against simulations of another make: stalls, the slowest of n, and hedged reads."""

import heapq
import random

import numpy as np
import pytest

from kvstore.course.lessons.lesson_11 import hedging
from kvstore.model import tail_latency

CALLS = 10_000


def reads(arrivals_s, work_s, after_s, rng):
    """Mean seconds of a read and copies that began: queues of copies, and a clock that jumps."""
    waiting, busy, ends, hedges = [[], []], [0, 0], [], []
    done, began, copies = {}, 0, 0
    arrivals = list(enumerate(arrivals_s))[::-1]
    first = rng.integers(0, 2, len(arrivals))
    while arrivals or ends or hedges:
        next_s = [arrivals[-1][1] if arrivals else np.inf]
        next_s += [each[0][0] if each else np.inf for each in (ends, hedges)]
        which, now_s = int(np.argmin(next_s)), min(next_s)
        if which == 0:
            read, _ = arrivals.pop()
            waiting[first[read]].append(read)
            heapq.heappush(hedges, (now_s + after_s, read))
            copies += 1
        elif which == 1:
            _, read, server = heapq.heappop(ends)
            busy[server] -= 1
            if read not in done:
                done[read] = now_s - arrivals_s[read]
                for queue in waiting:
                    if read in queue:
                        queue.remove(read)
        else:
            _, read = heapq.heappop(hedges)
            if read not in done:
                waiting[1 - first[read]].append(read)
                copies += 1
        for server in (0, 1):
            while busy[server] < 4 and waiting[server]:
                heapq.heappush(ends, (now_s + work_s(), waiting[server].pop(0), server))
                busy[server] += 1
                began += 1
    return np.mean(list(done.values())), began / len(done), copies / len(done) - 1


@pytest.mark.parametrize(("after_s", "load"), [(0.0415, 0.86), (10.0, 0.6)])
def test_hedged_reads_agree_with_a_simulation_of_another_make(after_s, load):
    """Two replicas of four workers, exponential work of 50 ms, U = 0.6.

    Both simulations draw from the same numbers, so they agree exactly, and no run fails by chance.
    """
    rng, others_rng, began = np.random.default_rng(1), np.random.default_rng(1), []
    for _ in range(2):
        arrivals_s = hedging.arrivals_s(0.6 * 160, CALLS, rng).tolist()
        theirs_s = hedging.arrivals_s(0.6 * 160, CALLS, others_rng).tolist()
        hedged = hedging.hedged_reads(arrivals_s, lambda: rng.exponential(0.050), after_s, rng)
        mean_s, each_began, share = reads(
            theirs_s, lambda: others_rng.exponential(0.050), after_s, others_rng
        )
        assert hedged.took_s.mean() == pytest.approx(mean_s)
        assert hedged.began / CALLS == each_began
        assert hedged.hedged / CALLS == pytest.approx(share)
        began.append(each_began)

    assert 0.6 * np.mean(began) == pytest.approx(load, rel=0.07)


def test_the_p99_of_users_and_of_a_closed_loop_at_a_stalling_disk():
    """Calls walked through one by one: 0.4 s of every 4 s, a read of 5 ms."""
    law = tail_latency.latency(0.99, stall_s=0.4, every_s=4.0, service_s=0.005).value

    def took_s(at_s):
        return 0.005 + max(0.0, 0.4 - at_s % 4.0)

    rng = random.Random(1)
    due_s, closed_s, now_s = 0.0, [], 0.0
    users_s = []
    for _ in range(200_000):
        due_s += rng.expovariate(50)
        users_s.append(took_s(due_s))
    while now_s < 4_000:
        closed_s.append(took_s(now_s))
        now_s += closed_s[-1] + 0.001  # a round trip

    assert law == pytest.approx(0.365)
    assert law == pytest.approx(np.quantile(users_s, 0.99), rel=0.03)
    assert np.quantile(closed_s, 0.99) == pytest.approx(0.005)


def test_the_busy_replicas_of_round_3_get_more_than_they_can_serve():
    rng = np.random.default_rng(1)
    arrivals_s = hedging.arrivals_s(112, 20_000, rng).tolist()
    alone = hedging.hedged_reads(arrivals_s, lambda: 0.050, 60, rng)
    hedged = hedging.hedged_reads(arrivals_s, lambda: 0.050, 0.020, rng)

    assert 0.039 == pytest.approx((alone.took_s > 0.1).mean(), abs=0.01)
    assert 0.7 * hedged.began / 20_000 > 1.2
    assert hedged.hedged == 20_000
