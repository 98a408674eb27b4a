"""The service of the capstone in its process, and the trial of players against it."""

import json
import shutil
import time
from functools import partial

import capstone_players
import grpc
import numpy as np
import psutil
import pytest
from capstone_players import at_random, learner, naive, tempting

from kvstore.course import NOT_ATTEMPTED
from kvstore.course.lessons.lesson_15 import capstone
from kvstore.course.lessons.lesson_15 import questions as facts
from kvstore.course.lessons.lesson_15.judge.__main__ import LATE_S
from kvstore.course.lessons.lesson_15.judge.sitting import FAST, MEASURE_S, Refused
from kvstore.course.my_code import course_version
from kvstore.v1.kvstore_pb2 import RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

method_of = course_version("clients.method_of")

WORDS = ("practice", "lock", "pool", "disk", "width", "first", "seed")
"""Words that would say something about a case on a command line."""


@pytest.fixture
def fast(own_progress, tmp_path, monkeypatch):
    """The fast mode, and a folder for records; it comes after the mode of the other tests."""
    monkeypatch.setenv("COURSE_MODE", "fast")
    monkeypatch.delenv(capstone.PRACTICE, raising=False)
    return tmp_path


def children():
    return {each.pid: each for each in psutil.Process().children(recursive=True)}


@pytest.mark.slow
def test_a_whole_sitting_in_which_a_server_goes_away(fast):
    folder = fast / "example"
    with capstone.open_service("ada", practice=facts.EXAMPLE, folder=folder) as service:
        found = service.measure(in_flight=26, only="creates")
        assert found.answered > 5
        assert found.lost == 0
        with pytest.raises(Refused, match="only must be"):
            service.measure(only="deletes")
        service.name("global lock", "message size")
        assert service.run_start() is None  # without a prediction it does not run
        service.predict(start=60.0)
        assert service.run_start().answered > 20
        service.buy("split the lock", "compress")
        assert service.run(NOT_ATTEMPTED) is None
        assert service.run(lambda addresses, operations, in_flight: NOT_ATTEMPTED) is None
        client = partial(course_version("clients.patient"), timeout_s=2.0)
        assert service.run(client) is None  # its score would be final
        service.predict(result=150.0)
        score = service.run(client)
        with pytest.raises(Refused, match="final"):
            service.measure()
        assert 2 == len(service.measurements())
    (file,) = folder.glob("*.json")
    record = json.loads(file.read_text("utf-8"))

    assert record == score.record
    assert "goes" == record["final"]["case"]["fault"]
    assert 10.0 == next(each.points for each in score.lines if each.name == "stations named")
    assert 0 == record["final"]["result"]["lost"]
    assert record["practice"] is not None


@pytest.mark.slow
def test_a_record_that_cannot_be_written_is_said_and_the_service_goes_on(fast):
    """A folder that is gone fails as a full disk does, for root as well."""
    folder = fast / "example"
    with capstone.open_service("ada", practice=facts.EXAMPLE, folder=folder) as service:
        service.name("pool", "disk")
        shutil.rmtree(folder)
        with pytest.warns(UserWarning, match="could not be written"):
            service.name("pool", "retries")
        folder.mkdir()
        service.name("pool", "processor")
    (file,) = folder.iterdir()

    assert 3 == sum(e["event"] == "name" for e in json.loads(file.read_text("utf-8"))["history"])


@pytest.mark.slow
def test_an_operation_is_not_served_again_after_a_measurement(fast):
    """Else a client could measure for nothing whatever it liked, for twenty seconds."""
    late = []

    def comes_back(addresses, operations, in_flight):
        operation = next(operations)
        with grpc.insecure_channel(addresses[0]) as channel:
            send = method_of(KeyValueServiceStub(channel), operation)
            send(operation)
            time.sleep(MEASURE_S * FAST + LATE_S)
            with pytest.raises(grpc.RpcError) as refused:
                send(operation)
            late.append(refused.value.details())

    with capstone.open_service("eve", practice=facts.EXAMPLE, folder=fast / "again") as service:
        made = service.measure(comes_back)

    assert ["the run is over"] == late
    assert (1, 0) == (made.answered, made.lost)


@pytest.mark.slow
def test_the_process_says_nothing_of_its_case_before_the_score(fast):
    """Without the memory of the process, there is its command line, its files and its replies."""
    folder = fast / "own"
    before = children()
    with capstone.open_service("eve", folder=folder) as service:
        (process,) = (each for pid, each in children().items() if pid not in before)
        command = " ".join(process.cmdline())
        environment = process.environ()
        service.measure(in_flight=2)
        taken = []

        def peek(addresses, operations, in_flight):
            taken.extend(addresses)
            with grpc.insecure_channel(addresses[0]) as channel:
                stub = KeyValueServiceStub(channel)
                operation = next(operations)
                for key in (b"item-0/999999", b"item-77/0", b"nonsense"):
                    with pytest.raises(grpc.RpcError) as refused:
                        stub.Retrieve(RetrieveRequest(key=key))
                    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                method_of(stub, operation)(operation)

        service.measure(peek)
        with grpc.insecure_channel(taken[0]) as channel, pytest.raises(grpc.RpcError):
            KeyValueServiceStub(channel).Retrieve(RetrieveRequest(key=b"item-0/0"), timeout=2)
        shown = json.dumps([service.brief, service.record()])
        files = [path.read_text("utf-8") for path in folder.iterdir()]

    assert not [word for word in WORDS if word in command]
    assert not [name for name in environment if name.startswith("COURSE_CAPSTONE")]
    seen = json.loads(shown)
    assert {"stations", "changes"} <= seen[0].keys()
    assert seen[1]["final"] is None
    assert all("widths" not in text and "today" not in text for text in [shown, *files])


@pytest.mark.slow
def test_a_mistake_of_the_learner_is_named_and_costs_nothing(fast):
    with capstone.open_service("ada", practice=facts.EXAMPLE, folder=fast / "wrong") as service:
        service.predict(start=np.int64(60), result=np.float64(150.0))
        with pytest.raises(Refused, match="one by one"):
            service.buy(["compress", "more threads"])
        with pytest.raises(TypeError, match="takes numbers and texts"):
            service.name({"pool"})
        with pytest.raises(TypeError, match="a client is a function, got None"):
            service.run(None)
        with pytest.raises(TypeError, match="too many positional arguments"):
            service.run(lambda addresses, operations: None)
        with pytest.raises(Refused, match=r"did not understand the request: .*large"):
            service.predict(start=10**400)
        events = [each["event"] for each in service.record()["history"]]
    with pytest.raises(RuntimeError, match="closed: open one"):
        service.record()

    assert ["opened", "predict", "predict"] == events


@pytest.mark.slow
def test_the_lessons_method_finds_the_stations_and_other_designs_fail():
    def made(player):
        return [capstone_players.play(player, number) for number in range(8)]

    assert 7 <= sum(points >= 80 and passed for points, _, passed in made(learner))
    assert not any(met for _, met, _ in made(naive))
    bought = [*made(tempting), *made(at_random)]
    assert any(met for _, met, _ in bought)  # by chance, without a word about why
    assert not any(passed for *_, passed in bought)
