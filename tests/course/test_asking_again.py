"""stories/lost_answer.py and own_retries.py, on real servers."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from kvstore.client.workload import create, update
from kvstore.course.stories.lost_answer import asked_again
from kvstore.course.stories.own_retries import POLICY, burst
from kvstore.server import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with serving(write_delay_s=0.3, read_delay_s=0, locking="per_key", threads=8) as server:
        yield server


def test_a_create_whose_answer_was_lost_finds_its_own_key(server):
    calls = asked_again(server, create(b"mine", b"value"), hasty_s=0.1)

    assert ["DEADLINE_EXCEEDED", "ALREADY_EXISTS", "OK"] == list(calls["answer"])
    assert calls["reads what was to be written"].iloc[-1] is True


def test_an_update_may_be_asked_for_twice(server):
    asked_again(server, create(b"known", b"old"), hasty_s=0.1)
    calls = asked_again(server, update(b"known", b"new"), hasty_s=0.1)

    assert ["DEADLINE_EXCEEDED", "OK", "OK"] == list(calls["answer"])
    assert calls["reads what was to be written"].iloc[-1] is True


def test_grpc_asks_again_when_it_is_told_to():
    """Two places of 50 ms: a burst of ten loses most without retries."""
    with serving(write_delay_s=0.05, locking="per_key", threads=2, max_concurrent_rpcs=2) as narrow:
        once = burst(narrow, 10)
        again = burst(narrow, 10, {**POLICY, "initialBackoff": "0.2s"})

    assert {"OK", "RESOURCE_EXHAUSTED"} == set(once)
    assert 10 == once.total() == again.total()
    assert again["OK"] > once["OK"]


def test_grpc_makes_five_attempts_and_no_more():
    """What the lesson says of the most attempts, counted by a server that always refuses."""
    attempts = []

    class Refuses(grpc.GenericRpcHandler):
        def service(self, details):
            attempts.append(dict(details.invocation_metadata))
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "full")
            )

    server = grpc.server(ThreadPoolExecutor(2), handlers=(Refuses(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        hasty = {**POLICY, "initialBackoff": "0.05s", "maxBackoff": "0.05s"}
        ended = burst(f"127.0.0.1:{port}", 1, {**hasty, "maxAttempts": 9})
    finally:
        server.stop(None).wait()

    assert {"RESOURCE_EXHAUSTED": 1} == ended
    assert 5 == len(attempts)
    assert "4" == attempts[-1]["grpc-previous-rpc-attempts"]
