"""Histories of many operations, under kills, and with every planted bug; two judges.

The first judge is `checker.py`. Where Go is installed, porcupine judges every history as well.
"""

from collections.abc import Callable

import pytest
from long.histories import Clients, History
from long.linearizable import IN_A_TRY, TRIES, Judge, Judged, caught, judge, repeating, run
from long.planted import BUGS
from long.porcupine import NoPorcupine, built
from test_linearizable import TABLE

from kvstore.server import EtcdNotInstalled, etcd_cluster, serving

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

KILLS, LEADERS_KILLED = 40, 12
OPERATIONS = 20_000
ASYNCIO = {"use_asyncio": True}
DELAY = {"write_delay_s": 0.001}
SQLITE = {**ASYNCIO, "store": "sqlite:"}


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Judge | None:
    try:
        return built(tmp_path_factory.mktemp("porcupine"))
    except NoPorcupine as error:
        print(error)
        return None


@pytest.fixture
def check(outside, record_property) -> Callable[[History, int], Judged]:
    """Judge a history, and hold that so many operations were judged, by both judges."""

    def held(history: History, operations: int) -> Judged:
        judged = judge(history, outside)
        record_property("judged", str(judged))
        assert not judged.wrong
        assert judged.operations >= operations
        assert judged.chained >= operations / 20
        assert len(judged.undecided) <= judged.histories / 100, judged.undecided
        if outside is not None:
            assert judged.outside >= 0.99 * judged.histories
        return judged

    return held


def test_both_judges_agree_on_small_histories(outside):
    if outside is None:
        pytest.skip("porcupine could not be built: it needs Go")
    verdicts = outside([history for history, _ in TABLE])

    assert ["Ok" if expected else "Illegal" for _, expected in TABLE] == verdicts


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="threads"),
        pytest.param(ASYNCIO, id="asyncio"),
        pytest.param({"locking": "global"}, id="global lock"),
        pytest.param({"locking": "per_key_held", **DELAY}, id="held locks, threads"),
        pytest.param({"locking": "per_key_held", **DELAY, **ASYNCIO}, id="held locks, asyncio"),
        pytest.param({"writing": "compare_and_replace", **DELAY}, id="replace, threads"),
        pytest.param({"writing": "compare_and_replace", **DELAY, **ASYNCIO}, id="replace, asyncio"),
    ],
)
def test_an_order_explains_all(settings, check):
    history = History(seed=1)
    run(history, settings, OPERATIONS)

    check(history, OPERATIONS)


@pytest.mark.parametrize("group", [False, True], ids=["commit each", "group commit"])
def test_an_order_explains_all_while_the_server_is_killed(group, check):
    history = History(seed=2)
    run(history, {**SQLITE, "group_commit": group}, 2_000, kills=KILLS)

    check(history, 100 * KILLS)


def test_an_order_explains_all_while_leaders_are_killed(check):
    history = History(seed=3)
    try:
        with (
            etcd_cluster(3) as cluster,
            serving(store=cluster.store, use_asyncio=True) as server,
            Clients(server.address, history),
        ):
            for _ in range(LEADERS_KILLED):
                history.wait(200, 60)
                leader = cluster.leader()
                leader.kill()
                history.wait(50, 120)
                leader.start()
                cluster.wait_until_healthy()
    except EtcdNotInstalled as missing:
        pytest.skip(f"etcd: {missing}")

    check(history, 200 * LEADERS_KILLED)


# ---- what the judges find ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name, outside):
    assert caught(name, outside), f"{TRIES} runs of {IN_A_TRY} operations showed nothing"


def _repeated_writes_are_found(history: History, address: str) -> None:
    """Call a server whose writes are sent twice now and then, until a history shows it."""
    with Clients(address, history, streams=0):
        for _ in range(TRIES):
            history.wait(IN_A_TRY, 120)
            if judge(history).wrong:
                return
    raise AssertionError(f"{TRIES * IN_A_TRY} operations showed nothing")


def test_a_write_that_a_server_sends_twice_to_its_back_end_is_found():
    with (
        serving(use_asyncio=True, read_delay_s=0, write_delay_s=0) as back_end,
        repeating(back_end.address) as address,
        serving(use_asyncio=True, back_end=address) as server,
    ):
        _repeated_writes_are_found(History(seed=4), server.address)


def test_a_write_that_a_server_sends_twice_to_etcd_is_found():
    try:
        with (
            etcd_cluster(1) as cluster,
            repeating(cluster.nodes[0].address) as address,
            serving(use_asyncio=True, store=f"etcd:{address}") as server,
        ):
            _repeated_writes_are_found(History(seed=5), server.address)
    except EtcdNotInstalled as missing:
        pytest.skip(f"etcd: {missing}")
