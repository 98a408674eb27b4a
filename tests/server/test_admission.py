"""admission.py: limits of gRPC, calls that are too late, and time spent in the pool's queue."""

import threading
import time

import pytest
from running import HANG_S
from stacks import calling

from kvstore.server import serving
from kvstore.server.admission import MeasuredPool
from kvstore.v1 import kvstore_pb2 as pb


@pytest.mark.slow
def test_a_server_with_newest_first_serves_the_call_that_came_last():
    """Three calls with a name each come while the only thread has a first one."""
    with (
        serving(threads=1, read_delay_s=0.2, locking="per_key", newest_first=True) as server,
        calling(server.address) as stub,
    ):
        order = []
        calls = []
        for name in "0abc":
            call = stub.Retrieve.future(pb.RetrieveRequest(key=name.encode()), timeout=10)
            call.add_done_callback(lambda _, name=name: order.append(name))
            calls.append(call)
            time.sleep(0.02)
        for call in calls:
            call.exception()
        time.sleep(0.05)  # for the last callback

    assert "".join(order) == "0cba"


@pytest.mark.slow
def test_a_call_whose_caller_goes_is_finished_by_a_thread_and_given_up_by_a_loop(own_server, stack):
    """So after a deadline the effect of a call is unknown, as lesson 09 says: it may be either."""
    server = own_server(read_delay_s=0, write_delay_s=2.0)
    with calling(server.address) as stub:
        gone = stub.Create.future(pb.CreateRequest(key=b"k", value=b"v"), timeout=1.0)
        assert "DEADLINE_EXCEEDED" == gone.code().name
        time.sleep(1.5)
        end_s, found = time.monotonic() + HANG_S, ""
        while found != "OK" and time.monotonic() < end_s:
            found = stub.Retrieve.future(pb.RetrieveRequest(key=b"k")).code().name
            if stack == "asyncio":
                break

    assert ("OK" if stack == "threads" else "NOT_FOUND") == found


@pytest.mark.parametrize(("newest_first", "expected"), [(False, "abc"), (True, "cba")])
def test_a_free_thread_takes_the_oldest_or_the_newest_task(newest_first, expected):
    """The only thread is busy while three tasks come; then it takes one after the other."""
    begun, let_go, order = threading.Event(), threading.Event(), []
    with MeasuredPool(1, "test", newest_first=newest_first) as pool:
        pool.submit(lambda: (begun.set(), let_go.wait(10)))
        assert begun.wait(10)
        ended = [pool.submit(lambda name=name: order.append(name) or name) for name in "abc"]
        failed = pool.submit(int, "x")
        let_go.set()

        assert "abc" == "".join(each.result(10) for each in ended)
        assert isinstance(failed.exception(10), ValueError)
    assert expected == "".join(order)
