"""Runs of concurrent clients against a server that is killed now and then, and their verdicts."""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from long.checker import Event, Undecided, linearizable
from long.histories import Clients, History
from long.planted import BUGS
from long.relay import relaying

from kvstore.server import Server, ServerSettings, serving
from kvstore.subprocesses import process

PLANTED = str(Path(__file__).with_name("planted.py"))
START_S = 60.0
BETWEEN_KILLS = 120
"""Operations that clients must have done before the server is killed."""
SLOWEST_S = 0.05
"""An operation takes at most so long on a busy machine, on average."""
MEMORY = {"read_delay_s": 0, "write_delay_s": 0, "locking": "per_key", "threads": 32}
TRIES = 40
"""Runs in which a planted bug has to be found."""
IN_A_TRY = 600
"""Operations of such a run."""
NO_ORDER = "no order explains"

Judge = Callable[[Sequence[Sequence[Event]]], list[str]]
"""An outside judge: Ok, Illegal or Unknown for each history."""


@dataclass
class Judged:
    """What the judges have seen, and what was wrong."""

    histories: int = 0
    operations: int = 0
    chained: int = 0
    """Operations after another one of the same batch."""
    outside: int = 0
    """Histories that the outside judge has decided as well."""
    wrong: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.histories:,} histories with {self.operations:,} operations judged,"
            f" {self.chained:,} of them inside a batch; by porcupine as well: {self.outside:,};"
            f" without a verdict: {len(self.undecided):,}"
        )


def judge(history: History, outside: Judge | None = None) -> Judged:
    """Judge every key's history; each is wrong if one of the judges says so."""
    found = history.by_key()
    verdicts = outside(found) if outside else [""] * len(found)
    judged = Judged(wrong=list(history.misfits))
    for number, (events, verdict) in enumerate(zip(found, verdicts, strict=True)):
        try:
            explained = linearizable(events)
        except Undecided as undecided:
            judged.undecided.append(f"key {number}: {undecided}")
            continue
        judged.histories += 1
        judged.operations += len(events)
        judged.chained += sum(event.after >= 0 for event in events)
        judged.outside += verdict in ("Ok", "Illegal")
        if not explained:
            judged.wrong.append(f"{NO_ORDER} key {number}: {_shown(events)}")
        if verdict and verdict != "Unknown" and (verdict == "Ok") != explained:
            judged.wrong.append(f"porcupine says {verdict} of key {number}: {_shown(events)}")
    return judged


def _shown(events: Sequence[Event]) -> str:
    return ", ".join(
        f"[{each.sent_s:.4f}-{each.done_s:.4f} {each.kind} {each.value!r} {each.status}]"
        for each in events
    )


def run(
    history: History,
    settings: Mapping[str, Any],
    more: int,
    *,
    kills: int = 0,
    planted: str = "",
    streams: int = 2,
) -> None:
    """Call a server, kill it and start it again; clients reach it at one address.

    A relay has this address if there are kills: while no server listens at a port, another program
    can take it. After the last kill the run goes on until `more` further operations are known.
    """
    relay = None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        chosen = {**MEMORY, **settings}
        if chosen.get("store") == "sqlite:":
            chosen["store"] = f"sqlite:{folder}/data"
        clients = ExitStack()
        for turn in range(kills + 1):
            with _served(chosen, planted) as server:
                if relay is not None:
                    relay.server = server.address
                elif kills:
                    relay = stack.enter_context(relaying(server.address))
                if not turn:
                    address = relay.address if relay is not None else server.address
                    stack.enter_context(clients)
                    clients.enter_context(Clients(address, history, streams=streams))
                history.wait(BETWEEN_KILLS, START_S)
                if turn < kills:
                    server.kill()
                else:
                    history.wait(more, START_S + more * SLOWEST_S)
                    clients.close()


@contextmanager
def _served(settings: Mapping[str, Any], planted: str) -> Iterator[Server]:
    """Serve as `serving` does, with a planted bug if one is named."""
    if not planted:
        with serving(**settings) as server:
            yield server
        return
    chosen, identity = ServerSettings(**settings), secrets.token_hex(8)
    arguments = [planted, f"--settings={chosen.to_json()}", f"--identity={identity}"]
    with process([sys.executable, PLANTED, *arguments]) as started:
        address = started.first_line(START_S)
        assert address, started.error_text()
        yield Server(address, identity, chosen, started)


@contextmanager
def repeating(address: str) -> Iterator[str]:
    """Yield the address of a relay that sends some writes to this server twice."""
    with process([sys.executable, PLANTED, "repeat", address]) as started:
        found = started.first_line(START_S)
        assert found, started.error_text()
        yield found


def caught(name: str, outside: Judge | None = None) -> str:
    """Run a server with this bug until a history shows it; return what shows, or ""."""
    bug = BUGS[name]
    for seed in range(TRIES):
        history = History(seed, keys=16 if bug.kills else 4)
        run(history, bug.settings, IN_A_TRY, kills=bug.kills, planted=name)
        if wrong := judge(history, outside).wrong:
            assert not any(each.startswith("porcupine") for each in wrong), wrong
            return wrong[0]
    return ""
