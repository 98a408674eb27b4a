"""Lesson 12 against simulations: callers that wait for their replies, and users who do not."""

import heapq
import itertools

import numpy as np
import pytest

from kvstore.course.lessons.lesson_12.questions import SERVICE_S, answered_share, closed_loop


def shares_of(servers, hottest):
    """The share of the calls for each server; the first one has the hot key."""
    shares = np.full(servers, (1 - hottest) / servers)
    shares[0] += hottest
    return shares


def simulated_closed_loop(servers, hottest, in_flight, calls=60_000):
    """Calls per second of callers that each wait for a reply, in the second half."""
    rng = np.random.default_rng()
    block = np.repeat(np.arange(servers), (2_000 * shares_of(servers, hottest)).round().astype(int))
    blocks = (rng.permutation(block) for _ in itertools.count())  # of the exact shares each
    chosen = itertools.chain.from_iterable(blocks)
    free_s = np.zeros(servers)
    ends, done_s = [], []

    def send(at_s):
        server = next(chosen)
        free_s[server] = max(free_s[server], at_s) + SERVICE_S
        heapq.heappush(ends, free_s[server])

    for _ in range(in_flight):
        send(0.0)
    for _ in range(calls):
        done_s.append(heapq.heappop(ends))
        send(done_s[-1])
    return (calls / 2) / (done_s[-1] - done_s[calls // 2 - 1])


@pytest.mark.parametrize(("servers", "hottest", "per_s"), [(4, 0.4, 90.9), (20, 0.05, 512.8)])
def test_callers_that_wait_reach_the_rate_of_the_hot_keys_server(servers, hottest, per_s):
    assert per_s == pytest.approx(closed_loop(servers, hottest, 10_000).value, rel=1e-3)
    assert per_s == pytest.approx(simulated_closed_loop(servers, hottest, 20 * servers), rel=0.01)


@pytest.mark.parametrize(
    ("servers", "hottest", "arriving_per_s", "share"),
    [(4, 0.4, 159, 0.764), (20, 0.05, 900, 0.958)],
)
def test_users_who_do_not_wait_are_answered_but_for_the_hot_keys(
    servers, hottest, arriving_per_s, share
):
    """Random arrivals for 2,000 s; a server with 30 calls refuses the next one."""
    rng = np.random.default_rng()
    calls = 2_000 * arriving_per_s
    arrivals_s = rng.exponential(1 / arriving_per_s, calls).cumsum()
    chosen = rng.choice(servers, calls, p=shares_of(servers, hottest))
    free_s, answered = [0.0] * servers, 0
    for at_s, server in zip(arrivals_s.tolist(), chosen.tolist(), strict=True):
        if free_s[server] - at_s <= 29 * SERVICE_S:
            free_s[server] = max(free_s[server], at_s) + SERVICE_S
            answered += 1

    assert share == pytest.approx(answered / calls, rel=0.01)
    assert share == pytest.approx(answered_share(servers, hottest, arriving_per_s), rel=1e-3)
