"""The learner's code in the runs: solved and unsolved, its target, the ladder, and what breaks."""

import _thread
import dataclasses
import sys
import threading
import time

import cloudpickle
import pytest

from kvstore.client import load, monitor, strategies, workload
from kvstore.client.errors import RunFailed, RunInterrupted
from kvstore.course import check, checks, live, own_code
from kvstore.course.exercises import NOT_ATTEMPTED, not_yet, passed
from kvstore.measure import Cpu, Run
from kvstore.server import serving

DISK = {"locking": "per_key", "read_delay_s": 0.002, "write_delay_s": 0.002}


def bounded(stub, operations, in_flight):
    free = threading.Semaphore(in_flight)
    for operation in operations:
        free.acquire()
        operation.rpc(stub).future(operation.request).add_done_callback(lambda _: free.release())
    for _ in range(in_flight):
        free.acquire()


def raises_later(stub, operations, in_flight):
    for sent, operation in enumerate(operations):
        operation.rpc(stub)(operation.request)
        if sent == 20:
            raise ValueError("twenty is enough")


def returns_early(stub, operations, in_flight):
    for operation in operations:
        operation.rpc(stub).future(operation.request)


def twice_the_limit(stub, operations, in_flight):
    bounded(stub, operations, 2 * in_flight)


def hangs(stub, operations, in_flight):
    bounded(stub, operations, in_flight)
    threading.Event().wait()


def hangs_at_once(stub, operations, in_flight):
    threading.Event().wait()


def judged(answer, verdict=None):
    checks._judged["03.bounded"] = answer, verdict or passed("as it should be")
    return own_code.yours("03.bounded", answer, ours=strategies.bounded)


def run_of(client, disk=DISK, **options) -> Run:
    settings = {"in_flight": 8, "duration_s": 0.4} | options
    with serving(**disk) as server:
        return load.run(client, server, workload.crud(preload=50), **settings)


@pytest.fixture(scope="module", autouse=True)
def answers_travel_as_from_a_notebook():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def nothing_judged(monkeypatch):
    monkeypatch.setattr(checks, "_judged", {})


def test_an_answer_that_computes_a_setting_returns_it(page):
    checks._judged["00.mean_in_flight"] = (rate_for := lambda *given: sum(given)), passed("right")
    ours = lambda *given: 0.0  # noqa: E731

    assert 6.0 == own_code.yours("00.mean_in_flight", rate_for, ours)(1.0, 2.0, 3.0)
    assert 0.0 == own_code.yours("00.mean_in_flight", lambda *given: 7.0, ours)(1.0, 2.0, 3.0)


def test_an_answer_that_passed_runs_and_gives_the_run_its_name(page):
    client = judged(bounded)
    run = run_of(client)

    assert run.strategy == "your bounded"
    assert own_code.is_yours(run)
    assert "the runs have your `bounded`" in page[-1]["text/plain"]


@pytest.mark.parametrize("verdict", [None, not_yet("too many")], ids=["unchecked", "wrong"])
def test_until_it_has_passed_ours_runs_and_one_line_says_so(page, verdict):
    if verdict is not None:
        checks._judged["03.bounded"] = bounded, verdict
    client = own_code.yours("03.bounded", bounded, ours=strategies.bounded)

    assert client is strategies.bounded
    (line,) = page
    assert "has not passed its check" in line["text/plain"]


def test_an_answer_that_was_changed_after_its_check_has_to_be_checked_again(page):
    judged(bounded)

    assert own_code.yours("03.bounded", hangs, ours=strategies.bounded) is strategies.bounded


def test_the_check_is_what_lets_an_answer_run(page):
    def stub(stub, operations, in_flight):
        return NOT_ATTEMPTED

    check("00.first_client", stub)
    assert not checks.passed("00.first_client", stub)


def test_an_answer_that_raises_under_load_says_what_and_where(page):
    with pytest.raises(RunFailed, match=r"your `raises_later` .* ValueError in line \d+.*twenty"):
        run_of(judged(raises_later), duration_s=None, calls=100)


@pytest.mark.parametrize("answer", [hangs, hangs_at_once], ids=lambda answer: answer.__name__)
def test_an_answer_that_never_returns_ends_its_run(page, monkeypatch, answer):
    monkeypatch.setattr(monitor, "STUCK_S", 0.5)
    began_s = time.monotonic()

    with pytest.raises(RunFailed, match="did not return within"):
        run_of(judged(answer))
    assert time.monotonic() - began_s < 10


def test_an_answer_that_hangs_can_be_stopped_at_once(page):
    client, begun = judged(hangs_at_once), []

    def interrupt(_sample):
        begun.append(time.monotonic())
        if len(begun) == 1:
            _thread.interrupt_main()

    with serving(**DISK) as server, pytest.raises(RunInterrupted):
        load.run(client, server, workload.crud(), in_flight=8, duration_s=60, on_sample=interrupt)
    assert time.monotonic() - begun[0] < 5


def quiet(run):
    """The run as on a machine that did nothing else, and had cores to spare."""
    idle = Cpu(0.01, 0.0, loop_s=0.005)
    return dataclasses.replace(
        run, client_cpu=idle, server_cpu=idle, machine_cpu_s=0.02, machine_stolen_s=0.0
    )


def half_the_limit(stub, operations, in_flight):
    bounded(stub, operations, in_flight // 2)


def test_the_live_view_takes_it_as_any_strategy(page, monkeypatch):
    client = judged(bounded)
    with serving(**DISK) as server:
        run = live.run(client, server, workload.crud(), in_flight=4, duration_s=0.2)
    assert run.strategy == "your bounded"
