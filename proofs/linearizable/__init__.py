"""Histories of concurrent clients, under load and kills, have an order that explains them all.

Short: a checker in Python. Long: also porcupine, a checker in Go, where Go is installed.
"""

import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from kvstore.server import Server, ServerSettings, serving
from kvstore.server.etcd_nodes import etcd_cluster
from kvstore.server.launch import EtcdNotInstalled
from kvstore.subprocesses import child
from proofs.case import Case, Figure, Skipped
from proofs.linearizable import porcupine
from proofs.linearizable.checker import Event, Undecided, linearizable
from proofs.linearizable.clients import Clients, History
from proofs.linearizable.planted import BUGS

START_S = 20.0
BETWEEN_KILLS = 120
"""Operations that clients must have done before the server is killed."""
SLOWEST_S = 0.02
"""An operation takes at most so long on a busy machine, on average."""
IN_A_CATCH = 500
"""Operations that show a planted bug or do not; then clients and server start anew."""
LONGEST_S = 60.0
"""Time in which a planted bug has to be caught."""
MEMORY = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "threads": 16}
Found = Iterator[Case | Figure | Skipped]


def prove(short: bool) -> Found:
    """Yield one case for each key's history of the real stores, and one for each planted bug."""
    histories: list[list[Event]] = []
    operations = kills = 0
    for name, settings, more, times in _plan(short):
        with tempfile.TemporaryDirectory() as folder:
            history = History(seed=len(histories))
            kills += run(history, _placed(settings, folder), more, times)
        judged = history.by_key()
        histories += judged
        operations += history.operations
        for number, each in enumerate(judged):
            yield Case(f"{name}, key {number}", verdict(each))
    yield Figure("operations", operations)
    yield Figure("kills on SQLite", kills)
    if not short:
        yield from _etcd(seconds=600.0, kills=100)
        yield from porcupine.judge(histories)
    caught_s = []
    for name, bug in BUGS.items():
        if bug.short or not short:
            began_s = time.perf_counter()
            wrong = _catch(name)
            caught_s.append(time.perf_counter() - began_s)
            yield Case(f"planted: {name}", wrong)
    yield Figure("planted bugs", len(caught_s))
    yield Figure("slowest catch", f"{max(caught_s):.1f} s")


def _plan(short: bool) -> Iterator[tuple[str, dict[str, Any], int, int]]:
    """Yield the name of a store, its settings, the operations without a kill, and the kills.

    The long form makes at least a million operations and a thousand kills.
    """
    without_a_kill, times = (2_000, 2) if short else (110_000, 250)
    for aio in (False, True):
        stack = "asyncio" if aio else "threads"
        own = {**MEMORY, "use_asyncio": aio}
        yield f"memory, {stack}", own, without_a_kill, 0
        held = {**own, "locking": "per_key_held", "write_delay_s": 0.001}
        if not short:
            yield f"memory, held locks, {stack}", held, without_a_kill, 0
            yield f"memory, global lock, {stack}", {**own, "locking": "global"}, without_a_kill, 0
            replaced = {**own, "writing": "compare_and_replace", "write_delay_s": 0.001}
            yield f"memory, compare and replace, {stack}", replaced, without_a_kill, 0
        for group in () if not aio else (True,) if short else (False, True):
            disk = {**own, "store": "sqlite:", "group_commit": group}
            yield f"sqlite, {stack}, group commit {group}", disk, 0, times


def _placed(settings: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings with this folder for the data of SQLite."""
    if settings.get("store") != "sqlite:":
        return dict(settings)
    return {**settings, "store": f"sqlite:{folder}/data"}


def run(
    history: History, settings: Mapping[str, Any], more: int, kills: int, planted: str = ""
) -> int:
    """Call a server, kill it and start it again on the same port; return the number of kills.

    After the last kill it goes on until `more` further operations are known.
    """
    port = 0
    with ExitStack() as calling:
        for turn in range(kills + 1):
            with _served({**settings, "port": port}, planted) as server:
                if not port:
                    port = int(server.address.rpartition(":")[2])
                    calling.enter_context(Clients(server.address, history, threads=5, batches=1))
                history.wait(BETWEEN_KILLS)
                if turn < kills:
                    server.kill()
                else:
                    history.wait(more, within_s=START_S + more * SLOWEST_S)
                    calling.close()
    return kills


@contextmanager
def _served(settings: Mapping[str, Any], planted: str) -> Iterator[Server]:
    """Serve as `serving` does, with a planted bug if one is named."""
    if not planted:
        with serving(**settings) as server:
            yield server
        return
    chosen, identity = ServerSettings(**settings), secrets.token_hex(8)
    arguments = [planted, f"--settings={chosen.to_json()}", f"--identity={identity}"]
    with child("proofs.linearizable.planted", arguments) as process:
        address = process.first_line(START_S)
        assert address, process.error_text()
        yield Server(address, identity, chosen, process)


def _catch(name: str) -> str:
    """Run a server with this bug until a history shows it; return what is wrong if none does."""
    bug = BUGS[name]
    end_s = time.perf_counter() + LONGEST_S
    seed = 0
    while time.perf_counter() < end_s:
        seed += 1
        history = History(seed)
        with tempfile.TemporaryDirectory() as folder:
            settings: dict[str, Any] = {**MEMORY, **bug.settings}
            if bug.kills:
                settings |= {"store": f"sqlite:{folder}/data", "use_asyncio": True}
            run(history, settings, IN_A_CATCH, bug.kills, planted=name)
        if any(verdict(each).startswith(NO_ORDER) for each in history.by_key()):
            return ""
    return f"expected to be caught within {LONGEST_S:g} s, and {seed} runs showed nothing"


NO_ORDER = "no order explains"


def verdict(history: list[Event]) -> str:
    """Return what is wrong with a history, as text; empty if it is linearizable."""
    try:
        if linearizable(history):
            return ""
    except Undecided as undecided:
        return str(undecided)
    return f"{NO_ORDER} " + ", ".join(
        f"[{each.sent_s:.4f}-{each.done_s:.4f} {each.kind} {each.value!r} {each.status}]"
        for each in history
    )


def _etcd(seconds: float, kills: int) -> Found:
    """Yield the histories of a server in front of etcd while leaders are killed."""
    try:
        with etcd_cluster(3) as cluster:
            history = History(seed=10**6)
            with (
                serving(store=cluster.store, use_asyncio=True) as server,
                Clients(server.address, history, threads=5, batches=0),
            ):
                for _ in range(kills):
                    time.sleep(seconds / kills / 2)
                    leader = cluster.leader()
                    leader.kill()
                    time.sleep(seconds / kills / 2)
                    leader.start()
                    cluster.wait_until_healthy()
    except EtcdNotInstalled as error:
        yield Skipped(f"etcd: {error}")
        return
    judged = history.by_key()
    for number, each in enumerate(judged):
        yield Case(f"etcd, key {number}", verdict(each))
    yield Figure("operations on etcd", history.operations)
    yield Figure("leaders killed", kills)
