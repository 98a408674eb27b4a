"""route.py: which connection a call takes."""

import random
import threading
from collections import Counter

import pytest

from kvstore.client.route import EvenShare
from kvstore.client.workload import retrieve

ANY = retrieve(b"k")


def test_calls_at_once_are_shared_out_evenly():
    route = EvenShare(3)

    assert Counter({0: 4, 1: 4, 2: 4}) == Counter(route.take(ANY) for _ in range(12))


@pytest.mark.parametrize(("connections", "in_flight"), [(2, 2), (3, 12), (5, 17), (10, 100)])
def test_no_connection_ever_has_more_than_its_share(connections, in_flight):
    route, rng = EvenShare(connections), random.Random(6)
    taken: list[int] = []
    for _ in range(3_000):
        if len(taken) < in_flight and (not taken or rng.random() < 0.6):
            taken.append(route.take(ANY))
        else:
            route.give(taken.pop(rng.randrange(len(taken))))

        assert max(Counter(taken).values(), default=0) <= -(-in_flight // connections)


def test_in_a_closed_loop_the_next_call_takes_the_place_of_the_one_that_ended():
    route = EvenShare(4)
    for _ in range(8):
        route.take(ANY)
    route.give(2)

    assert 2 == route.take(ANY)


def test_threads_that_ask_at_once_never_share_a_slot():
    """Forty slots are taken and given by as many threads: ten on each connection, no more."""
    route, open_on, most = EvenShare(4), Counter(), Counter()
    counting, together = threading.Lock(), threading.Barrier(40)

    def caller() -> None:
        together.wait()
        for _ in range(200):
            number = route.take(ANY)
            with counting:
                open_on[number] += 1
                most[number] = max(most[number], open_on[number])
            with counting:
                open_on[number] -= 1
            route.give(number)

    callers = [threading.Thread(target=caller) for _ in range(40)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()

    assert max(most.values()) <= 10
    assert 0 == sum(open_on.values())
