"""Several servers: tables by hand, and the experiments against real servers."""

import math
from itertools import count

import numpy as np
import pytest

from kvstore.course.experiments import several_servers
from kvstore.course.experiments.several_servers import FanOut
from kvstore.server import serving

ANSWERS = FanOut(np.array([[0.01, 0.02, 0.01], [0.01, 0.01, math.inf]]))


def test_a_request_takes_as_long_as_the_slowest_of_its_servers():
    assert sorted([0.01, 0.01, 0.02, 0.01, 0.01, math.inf]) == sorted(ANSWERS.residence_s(1))
    assert sorted([0.02, 0.02, 0.01, 0.01, math.inf, math.inf]) == sorted(ANSWERS.residence_s(2))
    assert [0.02, math.inf] == list(ANSWERS.residence_s(3))
    assert 0.5 == ANSWERS.slow_share(3, 0.02)  # the request without a reply
    with pytest.raises(ValueError, match="from 1 to 3, got 4"):
        ANSWERS.residence_s(4)


@pytest.mark.slow
def test_every_server_has_a_request_at_every_due_time():
    with serving(read_delay_s=0, write_delay_s=0) as one, serving(read_delay_s=0.05) as two:
        replies = several_servers.fan_out([one, two], (n / 50 for n in count()), duration_s=0.2)

    assert (10, 2) == replies.answer_s.shape
    assert np.isfinite(replies.answer_s).all()
    assert (replies.answer_s[:, 1] > 0.045).all()  # the disk
    assert list(replies.residence_s(2)) == list(replies.answer_s.max(axis=1))


@pytest.mark.slow
def test_a_request_without_a_reply_is_slow():
    """A server that takes two calls, one after the other, and refuses the others."""
    busy = {"read_delay_s": 1.0, "write_delay_s": 0, "threads": 1, "max_concurrent_rpcs": 2}
    with serving(locking="per_key", **busy) as server:
        replies = several_servers.fan_out([server], (n / 100 for n in count()), duration_s=0.1)

    assert 2 == np.isfinite(replies.answer_s).sum()
    assert 1.0 == replies.slow_share(1, 0.1)


@pytest.mark.skipif(not several_servers.has_shared_ports(), reason="no shared ports on this system")
def test_servers_on_one_port_are_chosen_by_connection():
    found = several_servers.servers_by_connection(2, 100)

    assert 100 == len(found)
    assert {0, 1} == set(found)
    assert {0} == set(several_servers.servers_by_connection(1, 5))
