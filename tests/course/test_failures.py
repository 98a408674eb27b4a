"""Calls that fail, on real servers: a client that miscounts, retries, a killed server."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from kvstore.client import load, workload
from kvstore.client.messages import create, update
from kvstore.course.experiments.failures import (
    POLICY,
    burst,
    killed_at_work,
    retried,
    still_there,
)
from kvstore.course.experiments.java_client import JavaClient
from kvstore.server import serving

pytestmark = pytest.mark.slow
KEPT = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "use_asyncio": True}


def test_the_java_client_reports_all_but_its_creates():
    java = JavaClient()
    with serving(read_delay_s=0, write_delay_s=0.001) as server:
        run = load.run(java.do_client_work, server, workload.crud(value_bytes_mean=1), calls=60)

    made = run.server["operations"]
    assert 60 == sum(made.values())
    assert made["create/OK"] > 0
    assert 60 - made["create/OK"] == java.rpc_count
    assert java.rpc_count / 2 == java.reported_per_s(2.0)


def test_after_a_kill_the_disk_has_all_that_was_acknowledged_and_memory_nothing(tmp_path):
    for folder, share in ((str(tmp_path), 1), (None, 0)):
        settings = {**KEPT, "store": f"sqlite:{folder}", "group_commit": True}
        with serving(**settings) as server:
            acknowledged = killed_at_work(server, answers=50)
            killed = not server.alive()
        with serving(**settings) as again:
            found = still_there(again, acknowledged)

        assert killed
        assert len(acknowledged) >= 50
        assert share * len(acknowledged) == found


@pytest.fixture(scope="module")
def server():
    with serving(write_delay_s=0.3, read_delay_s=0, locking="per_key", threads=8) as server:
        yield server


def test_a_retry_after_a_lost_reply_finds_its_own_write(server):
    """A create finds its own key; an update is done twice."""
    calls = retried(server, create(b"mine", b"value"), too_short_s=0.1)
    assert ["DEADLINE_EXCEEDED", "ALREADY_EXISTS", "OK"] == list(calls["answer"])
    assert calls["reads the new value"].iloc[-1] is True

    calls = retried(server, update(b"mine", b"new"), too_short_s=0.1)
    assert ["DEADLINE_EXCEEDED", "OK", "OK"] == list(calls["answer"])
    assert calls["reads the new value"].iloc[-1] is True


def test_grpc_retries_with_a_policy_and_not_without():
    """Two threads of 50 ms: a burst of ten loses most calls without retries."""
    with serving(write_delay_s=0.05, locking="per_key", threads=2, max_concurrent_rpcs=2) as narrow:
        once = burst(narrow, 10)
        again = burst(narrow, 10, {**POLICY, "initialBackoff": "0.2s"})

    assert {"OK", "RESOURCE_EXHAUSTED"} == set(once)
    assert 10 == once.total() == again.total()
    assert again["OK"] > once["OK"]


def test_grpc_makes_five_attempts_and_no_more():
    """gRPC caps maxAttempts at 5, as the lesson says; the server here refuses every call."""
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
