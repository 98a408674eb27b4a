"""The learner's code in the runs: solved and unsolved, its target, the ladder, and what breaks."""

import _thread
import dataclasses
import subprocess
import sys
import threading
import time

import cloudpickle
import made_runs
import pytest

from kvstore.client import load, monitor, strategies, workload
from kvstore.client.errors import RunFailed, RunInterrupted
from kvstore.course import check, checks, live, own_code, progress
from kvstore.course.exercises import NOT_ATTEMPTED, not_yet, passed
from kvstore.measure import Cpu, Run, cores
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
    checks._judged["12.rate"] = (rate_for := lambda *given: sum(given)), passed("right")
    ours = lambda *given: 0.0  # noqa: E731

    assert 6.0 == own_code.yours("12.rate", rate_for, ours)(1.0, 2.0, 3.0)
    assert 0.0 == own_code.yours("12.rate", lambda *given: 7.0, ours)(1.0, 2.0, 3.0)


def test_an_answer_that_passed_runs_and_gives_the_run_its_name(page):
    client = judged(bounded)
    run = run_of(client)

    assert run.strategy == "your bounded"
    assert own_code.is_yours(run)
    assert "the runs have your `bounded`" in page[-1]["text/plain"]
    reached = own_code.target("03.bounded", run, bound=1.0)
    assert reached.reached
    assert "course's" not in repr(reached)


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


def test_a_lost_call_and_a_limit_that_is_not_kept_miss_the_target(page):
    slow = {**DISK, "read_delay_s": 0.2, "write_delay_s": 0.2}  # all that are sent are open
    early, twice = judged(returns_early), judged(twice_the_limit)
    lost = own_code.target("03.bounded", run_of(early, slow, calls=20, duration_s=None))
    wide = own_code.target("03.bounded", run_of(twice, slow))

    assert not lost.reached
    assert own_code.lost_operations(lost.run) > 0
    assert not wide.reached
    assert 8 < own_code.most_open(wide.run) <= 16


@pytest.fixture
def busy_machine():
    """Two programs for each core, as other users of this machine."""
    burn = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burn) for _ in range(2 * cores())]
    yield
    for each in burners:
        each.kill()
        each.wait()


@pytest.mark.slow
def test_a_busy_machine_fails_nobody(page, busy_machine):
    """A right client misses what no client reaches here: not judged, and never a cross."""
    run = run_of(judged(bounded), {**DISK, "read_delay_s": 0.0, "write_delay_s": 0.0}, duration_s=1)
    made = own_code.target("03.bounded", run, bound=1e9)

    assert not made.reached
    assert not made.missed
    assert "machine" in made.reason
    assert "✘" not in page[-1]["text/plain"]
    assert "not judged" in page[-1]["text/plain"].lower()


def test_the_courses_own_client_never_misses(page):
    made = own_code.target("03.bounded", run_of(strategies.bounded), bound=1e9)

    assert not made.missed
    assert "✘" not in repr(made)


def quiet(run):
    """The run as on a machine that did nothing else, and had cores to spare."""
    idle = Cpu(0.01, 0.0, loop_s=0.005)
    return dataclasses.replace(
        run, client_cpu=idle, server_cpu=idle, machine_cpu_s=0.02, machine_stolen_s=0.0
    )


def half_the_limit(stub, operations, in_flight):
    bounded(stub, operations, in_flight // 2)


def test_a_slow_client_misses_beside_ours_in_turn(page):
    """Yours, ours, yours, ours: half the calls in flight behind a disk make half the rate."""
    slow, order = {**DISK, "read_delay_s": 0.05, "write_delay_s": 0.05}, []

    def run(client):
        order.append(own_code.is_yours(client))
        return quiet(run_of(client, slow, duration_s=0.6))

    mine, theirs = own_code.in_turn(run, judged(half_the_limit), strategies.bounded)
    made = own_code.target("03.bounded", mine, beside=theirs)

    assert order == [True, False, True, False]
    assert made.missed
    assert made.reason == ""
    assert 0.2 < made.marks["yours"] / made.marks["ours"] < 0.8


def test_pairs_that_disagree_are_not_judged(page):
    fast = quiet(run_of(judged(bounded)))
    late = dataclasses.replace(fast, window_s=10 * fast.window_s)

    made = own_code.target("03.bounded", [fast, late], beside=[fast, fast])

    assert not made.missed
    assert "disagree" in made.reason


def test_the_end_that_is_noted_after_the_next_call_breaks_no_limit(page):
    """100 threads, and the end of a call noted 0.1 ms late: never 101 in flight for long."""
    took_s = 0.02
    calls = [
        (n * took_s - (0.0001 if n else 0.0), (n + 1) * took_s, "create")
        for _ in range(10)
        for n in range(20)
    ]

    assert own_code.most_open(made_runs.run_of(calls)) == 10
    assert own_code.most_open(made_runs.run_of([*calls, (0.0, 0.3, "create")])) == 11


def test_yours_stands_beside_ours_and_the_published_one(page, monkeypatch, no_windows):
    captions = []
    monkeypatch.setattr(own_code.rendering, "captioned", lambda ax, text: captions.append(text))
    mine, theirs = run_of(judged(bounded)), run_of(strategies.bounded)
    made = own_code.target(
        "03.bounded", mine, beside=theirs, at_least=0.1, cpu_at_most=50, published=2_449.8,
        rung="no lock, 100 in flight",
    )  # fmt: skip

    assert list(made.marks) == ["yours", "ours", "published"]
    assert made.reached
    assert "yours" in captions[0]
    assert "published 2,450" in captions[0]
    own_code.ladder()
    assert "Your fastest client makes" in captions[1]
    assert progress.climb()["no lock, 100 in flight", "yours"] == mine.throughput_per_s


def test_the_line_of_a_target_has_the_name_of_our_client_as_code(page):
    own_code.target("03.bounded", run_of(strategies.bounded, calls=5), bound=1.0)

    (line,) = (each["text/html"] for each in page if "Target of" in each["text/html"])
    assert "`" not in line
    assert "<code>bounded</code>" in line


def test_the_ladder_says_which_rungs_ours_alone_has(page, monkeypatch, no_windows):
    drawn = []
    monkeypatch.setattr(own_code.rendering, "captioned", lambda *shown: drawn.append(shown))
    made_by = {"yours": ("reads, one at a time", "reads, all at once", "no disk, one stream"),
               "ours": ("the mix, one at a time", "no disk, batches")}  # fmt: skip
    for whose, rungs in made_by.items():
        for place, rung in enumerate(rungs):
            progress.keep_rung(rung, whose, 90.0 * 10**place)
    own_code.ladder()

    ((ax, said),) = drawn
    assert "The course's client alone made: the mix, one at a time; no disk, batches." in said
    lines = [list(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"]
    assert [90.0, 900.0] in lines
    assert not any(len(line) > 2 for line in lines)  # none leads from the reads to the mix


def test_an_unknown_rung_is_refused(page):
    with pytest.raises(LookupError, match="no rung 'the top'"):
        own_code.target("03.bounded", run_of(strategies.bounded, calls=5), rung="the top")


def test_the_live_view_takes_it_as_any_strategy(page, monkeypatch):
    client = judged(bounded)
    with serving(**DISK) as server:
        run = live.run(client, server, workload.crud(), in_flight=4, duration_s=0.2)
    assert run.strategy == "your bounded"
