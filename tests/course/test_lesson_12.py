"""Lesson 12: gRPC's policies, and the models of its questions."""

import grpc
import pytest
from stacks import reads_per_s

from kvstore.course.lessons.lesson_12 import questions
from kvstore.course.my_code import course_version
from kvstore.course.questions import registered
from kvstore.server import serving_replicas


@pytest.mark.slow
def test_a_channel_is_pinned_to_one_server_until_its_policy_is_another():
    """A canary for gRPC's default, `pick_first`, against real servers."""
    settings = {"use_asyncio": True, "locking": "global", "read_delay_s": 0.005}
    with serving_replicas([settings] * 2) as both:
        addresses = [server.address for server in both.servers]
        with grpc.insecure_channel("ipv4:" + ",".join(addresses)) as channel:
            pinned = reads_per_s(both.servers, channel, duration_s=0.3)
        with course_version("balance.spread")(addresses) as channel:
            spread = reads_per_s(both.servers, channel, duration_s=0.3)

    assert max(pinned) == sum(pinned) > 0
    assert max(spread) < 1.2 * sum(spread) / 2


def test_models_by_hand():
    assert 50 == pytest.approx(registered("12.one_channel").model(None).value)
    assert 76.4 == pytest.approx(questions.answered_percent(1_000).value, rel=1e-3)
    assert 0.8 == registered("12.moved").model([], []).value
    assert 0.5 == registered("12.moved").measured([0, 1, 0, 1], [0, 1, 2, 2])
