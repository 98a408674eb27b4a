"""`run` with clients and servicers as learners write them."""

import _thread
import asyncio
import importlib
import sys
import threading
import time

import cloudpickle
import pytest

from kvstore.client import load, monitor, workload
from kvstore.client.errors import RunFailed, RunInterrupted
from kvstore.course import my_code, running
from kvstore.course.replays import replay
from kvstore.course.running import YourCodeFailed
from kvstore.server import serving
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer


class Locked(KeyValueServiceServicer):
    """Sleeps 20 ms behind one lock."""

    def __init__(self):
        self.values, self.lock = {}, threading.Lock()

    def Create(self, request, context):
        self.values[request.key] = request.value
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        with self.lock:
            time.sleep(0.020)
        return pb.RetrieveResponse(value=self.values[request.key])


class Free(Locked):
    """Sleeps 20 ms, then takes the lock."""

    def Retrieve(self, request, context):
        time.sleep(0.020)
        with self.lock:
            return pb.RetrieveResponse(value=self.values[request.key])


class OnALoop(KeyValueServiceServicer):
    """The same on an event loop."""

    def __init__(self):
        self.values, self.lock = {}, asyncio.Lock()

    async def Create(self, request, context):
        self.values[request.key] = request.value
        return pb.CreateResponse()

    async def Retrieve(self, request, context):
        async with self.lock:
            await asyncio.sleep(0.020)
        return pb.RetrieveResponse(value=self.values[request.key])


class Raises(Locked):
    def Retrieve(self, request, context):
        raise KeyError("cup")


class CannotBegin(Locked):
    def __init__(self):
        raise ValueError("no disk")


@pytest.fixture(autouse=True)
def as_from_a_notebook():
    my_code.install()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_code"]:
        del sys.modules[name]


def clients():
    return importlib.import_module("my_code.clients")


@pytest.mark.parametrize("servicer", [Locked, OnALoop])
def test_a_lock_and_a_sleep_of_the_servicer_are_stations(servicer):
    made = running.run(clients().bounded, servicer, in_flight=4, seconds=0.5)

    settings = made.server.settings
    assert "global" == settings.locking
    assert 0.020 == pytest.approx(settings.read_delay_s)
    calls = made.calls
    assert (calls["disk_s"] >= 0.018).all()
    assert calls["lock_s"].max() > 0.030  # three others are before the last of the first four
    assert made.issued == made.server.answered == made.operations_ok
    assert {"lock", "disk"} <= {room.label for room in replay(made).scenes[0].rooms}


def test_a_sleep_before_the_lock_is_told_from_one_behind_it():
    made = running.run(clients().bounded, Free, in_flight=4, seconds=0.5)

    assert "per_key" == made.server.settings.locking
    assert made.calls["lock_s"].mean() < made.calls["disk_s"].mean()


def test_of_several_servers_a_function_chooses_or_else_the_key():
    quick = {"read_delay_s": 0, "locking": "per_key"}
    client, counted = clients().bounded, {"seconds": None, "calls": 40, "in_flight": 4}
    chosen = running.run(client, [quick, quick], choose=lambda open_calls: 1, **counted)
    one_key = [pb.RetrieveRequest(key=b"tea")]
    by_key = running.run(client, [quick, quick], sends=one_key, **counted)

    assert 40 == chosen.operations_ok == by_key.operations_ok
    assert {1} == set(chosen.records["connection"])
    assert 1 == len(set(by_key.records["connection"]))


def test_a_client_of_stubs_has_one_for_each_server_and_copies_are_due_together():
    async def both(stubs, requests):
        async for request in requests:
            await asyncio.gather(*(stub.Retrieve(request) for stub in stubs))

    quick = {"read_delay_s": 0, "locking": "per_key", "use_asyncio": True}
    made = running.run(both, [quick, quick], rate=100, seconds=None, calls=20)
    by_due = made.calls.groupby("due_s")["connection"].agg(sorted)

    assert 40 == made.operations_ok
    assert [[0, 1]] * 20 == by_due.tolist()
    assert made.settings["hedged"]


def test_messages_of_ones_own_get_their_keys_at_each_server_also_at_a_full_one():
    full = {"read_delay_s": 0, "write_delay_s": 0.05, "locking": "per_key"}
    few = full | {"use_asyncio": True, "max_concurrent_rpcs": 2}
    reads = [pb.RetrieveRequest(key=b"%d" % number) for number in range(9)]
    made = running.run(clients().blocking, [few, few], sends=reads, seconds=None, calls=9)

    assert 9 == made.operations_ok
    assert {0, 1} == set(made.records["connection"])


def test_messages_of_ones_own_are_sent_on_a_stream_again_and_again():
    size = 5
    theirs = list(clients().batches([b"a", b"b", b"c", b"d", b"e"], size))
    before = [each.SerializeToString() for each in theirs]
    with serving(read_delay_s=0.050, locking="per_key") as server:  # more are open than there are
        made = running.run(
            clients().window, server, sends=theirs, in_flight=8, seconds=None, calls=60, show=False
        )

    assert 60 == made.issued
    assert 60 * size == made.operations_ok
    assert 60 * size == made.server.answered
    assert before == [each.SerializeToString() for each in theirs]


def test_unary_messages_of_ones_own_are_sent_in_their_order():
    theirs = [pb.RetrieveRequest(key=b"a"), pb.UpdateRequest(key=b"b", value=b"new")]
    with serving(read_delay_s=0, write_delay_s=0, locking="per_key") as server:
        made = running.run(clients().bounded, server, sends=theirs, seconds=None, calls=10)

    assert {"OK": 10} == made.outcomes()
    assert ["retrieve", "update"] * 5 == list(made.calls["operation"])


class Front(KeyValueServiceServicer):
    """Asks the back end, in a thread."""

    def __init__(self, stub):
        self.stub = stub

    def Retrieve(self, request, context):
        return self.stub.Retrieve(request)


@pytest.mark.parametrize("front", [Front, {"threads": 8}])
def test_a_front_asks_a_back_end(front):
    slow = {"read_delay_s": 0.030, "locking": "per_key", "use_asyncio": True}
    reads = [pb.RetrieveRequest(key=b"cup")]
    made = running.run(
        clients().tasks, front, back_end=slow, sends=reads, in_flight=4, seconds=None, calls=40
    )

    assert {"OK": 40} == made.outcomes()
    assert made.latency_s(0.0) >= 0.028


def test_a_front_is_sent_messages():
    with pytest.raises(ValueError, match="front"):
        running.run(clients().tasks, Front, back_end={"read_delay_s": 0}, seconds=0.1)


@pytest.mark.parametrize("sends", [[], ["cup"]])
def test_what_cannot_be_sent_is_refused(sends):
    with pytest.raises(ValueError, match="sends"):
        running.run(clients().bounded, {"read_delay_s": 0}, sends=sends, seconds=0.1)


def test_a_client_of_a_cell_is_yours_and_its_error_has_a_line():
    def mine(stub, requests):
        for request in requests:
            stub.Retrieve(request)
            raise ValueError("one is enough")

    with pytest.raises(RunFailed, match=r"your `mine` .* ValueError in line \d+.*one is") as caught:
        running.run(mine, {"read_delay_s": 0}, seconds=0.4)
    assert isinstance(caught.value.__cause__, YourCodeFailed)
    assert "your mine" in str(caught.value.run)


def hangs(stub, requests, in_flight):
    for request in requests:
        stub.Retrieve(request)
    threading.Event().wait()


def hangs_at_once(stub, requests, in_flight):
    threading.Event().wait()


@pytest.mark.parametrize("client", [hangs, hangs_at_once], ids=lambda client: client.__name__)
def test_a_client_that_never_returns_ends_its_run(monkeypatch, client):
    monkeypatch.setattr(monitor, "STUCK_S", 0.5)
    began_s = time.monotonic()

    with pytest.raises(RunFailed, match="did not return within"):
        running.run(client, {"read_delay_s": 0}, in_flight=8, seconds=0.4)
    assert time.monotonic() - began_s < 10


def test_a_client_that_hangs_can_be_stopped_at_once():
    client, begun = running.strategy_of(hangs_at_once), []

    def interrupt(_sample):
        begun.append(time.monotonic())
        if len(begun) == 1:
            _thread.interrupt_main()

    with serving(read_delay_s=0) as server, pytest.raises(RunInterrupted):
        load.run(client, server, workload.crud(), in_flight=8, duration_s=60, on_sample=interrupt)
    assert time.monotonic() - begun[0] < 5


def test_each_run_draws_its_own_seed_and_takes_one():
    traffic = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key"}
    seeds = [
        running.run(clients().bounded, traffic, seconds=None, calls=5, **given).settings[
            "workload"
        ]["seed"]
        for given in ({}, {}, {}, {"seed": 7})
    ]
    assert 7 == seeds[3]
    assert 1 < len(set(seeds[:3]))


def test_what_a_method_raises_is_said(capfd):
    made = running.run(clients().blocking, Raises, seconds=0.3)

    assert {"UNKNOWN"} == set(made.outcomes())
    assert "KeyError" in capfd.readouterr().err


def test_a_servicer_that_does_not_begin_is_said():
    with pytest.raises(YourCodeFailed, match="no disk"):
        running.run(clients().blocking, CannotBegin, seconds=0.3)


def test_no_server_is_refused():
    with pytest.raises(TypeError, match="class"):
        running.run(clients().blocking, int, seconds=0.3)


ONE_WORKER = {"threads": 1, "locking": "per_key", "read_delay_s": 0.002}


@pytest.mark.parametrize("name", ["send_all", "open_loop"])
def test_an_open_loop_sends_at_due_times_and_counts_latency_from_them(name):
    due_s = [0.0, 0.1, 0.1, 0.4]
    made = running.run(getattr(clients(), name), ONE_WORKER, arrivals=due_s, in_flight=9)

    assert {"OK": 4} == made.outcomes()
    assert due_s == sorted(made.records["due_s"])
    assert (made.records["sent_s"] >= made.records["due_s"]).all()
    assert made.latency_s(0.0) == min(made.records["done_s"] - made.records["due_s"])


def test_a_client_that_waits_by_itself_measures_what_the_run_measures():
    latencies = []

    def measuring(stub, requests, due_times):
        latencies.extend(clients().open_loop(stub, requests, due_times))

    made = running.run(measuring, ONE_WORKER, rate=100, seconds=None, calls=60)

    theirs = sorted(latencies)
    ours = sorted(made.records["done_s"] - made.records["due_s"])
    assert 60 == len(theirs) == len(ours)
    begins_later_s = ours[30] - theirs[30]  # their clock starts when the function is called
    assert 0 <= begins_later_s < 0.5
    assert theirs[-1] - theirs[0] == pytest.approx(ours[-1] - ours[0], abs=0.1)


def test_random_arrivals_have_the_seed_of_the_run_and_even_ones_have_none():
    due = [
        sorted(
            running.run(clients().send_all, ONE_WORKER, seconds=None, calls=5, **how).records[
                "due_s"
            ]
        )
        for how in (
            {"rate": 200, "seed": 7},
            {"rate": 200, "seed": 7},
            {"rate": 200},
            {"rate": 200, "arrivals": "even"},
        )
    ]
    assert due[0] == due[1] != due[2]
    assert [0, 0.005, 0.01, 0.015, 0.02] == pytest.approx(due[3])


@pytest.mark.parametrize("how", [{"arrivals": [0.2, 0.1]}, {"arrivals": [0.1], "rate": 5}])
def test_an_open_loop_that_makes_no_sense_is_refused(how):
    with pytest.raises(ValueError, match=r"arrivals|rate"):
        running.run(clients().send_all, ONE_WORKER, seconds=0.2, **how)


def test_a_client_with_due_times_needs_a_rate():
    with pytest.raises(ValueError, match="rate"):
        running.run(clients().open_loop, ONE_WORKER, seconds=0.2)


def test_a_client_of_the_learner_can_be_sent_to_other_processes():
    async def written_in_a_cell(stub, requests, in_flight):
        """Send nothing."""

    strategy = cloudpickle.loads(cloudpickle.dumps(running.strategy_of(written_in_a_cell)))

    assert strategy.__name__ == "your written_in_a_cell"
