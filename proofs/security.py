"""What a stranger can reach, and what the course would load: see docs/threat_model.md."""

import ast
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import grpc
import psutil

from kvstore.client.channel import Target, Tls
from kvstore.protocol import CREATE, OK
from kvstore.server import Server, ServerDidNotStart, ServerSettings, serving
from kvstore.server.__main__ import KEY_VALUE, SERVER_STATUS
from kvstore.server.durable import FILE_NAME, DurableStore
from proofs.case import Case, Figure
from tools import certificate

ROOT = Path(__file__).parents[1]
LOADERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
RUNNERS = {"eval", "exec", "compile", "__import__"}
RUNS_LEARNERS_CODE = ("kvstore/course/", "tools/", "benchmarks/", "proofs/security.py")
"""Places that run the cells and exercises of the learner, who runs them anyway."""
WRITES = 300
OTHER_ADDRESSES = ("0.0.0.0", "::", "192.0.2.1", "2001:db8::1")
METHODS = (
    *(f"/{KEY_VALUE}/{name}" for name in ("Create", "Retrieve", "Pipeline", "NoSuchMethod")),
    f"/{SERVER_STATUS}/GetServerStatus",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/another.Service/Method",
)


def prove(short: bool) -> Iterator[Case | Figure]:
    """Yield one case for each promise of the threat model that a program can check."""
    for use_asyncio in (False, True):
        with serving(use_asyncio=use_asyncio) as server:
            stack = "asyncio" if use_asyncio else "threads"
            yield Case(f"listens on loopback only, {stack}", _beyond_loopback(server))
    for address in OTHER_ADDRESSES:
        yield Case(f"{address} needs TLS and a token", _without_tls(address))
    for use_asyncio in (False, True):
        stack = "asyncio" if use_asyncio else "threads"
        yield Case(f"no call without the token, {stack}", _strangers(use_asyncio))
    loads, runs = _dangerous()
    yield Case("loads no pickle of any type", ", ".join(loads))
    yield Case("server and client run no text", ", ".join(runs))
    for place in (0.25, 0.5, 0.75):
        yield Case(f"a log damaged at {place:.0%}", _damaged_log(place))


def _beyond_loopback(server: Server) -> str:
    """Return the addresses at which a server listens besides 127.0.0.1, or answers."""
    listening = [
        each.laddr.ip
        for each in psutil.Process(server.pid).net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    ]
    others = sorted({ip for ip in listening if ip.removeprefix("::ffff:") != "127.0.0.1"})
    if others or not listening:
        return f"it listens at {others or 'no address'}"
    port = int(server.address.rpartition(":")[2])
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            if each.family == socket.AF_INET and not each.address.startswith("127."):
                with socket.socket() as peer:
                    peer.settimeout(1.0)
                    if peer.connect_ex((each.address, port)) == 0:
                        return f"it answers at {each.address}"
    return ""


def _without_tls(address: str) -> str:
    """Return what is wrong if a server may listen at this address in plain text."""
    try:
        ServerSettings(listen=address)
    except ValueError as refused:
        said = str(refused)
        return "" if "needs TLS and a token" in said and "--tls FOLDER" in said else said
    return "accepted without TLS"


def _strangers(use_asyncio: bool) -> str:
    """Return the methods that a server with a token answers to a call with another one, or none.

    These are the methods of every shape and service that it has, and some that it has not.
    """
    wrong = []
    with tempfile.TemporaryDirectory() as made:
        certificate.write(Path(made), [])
        known = Tls.of(made)
        with serving(tls=made, use_asyncio=use_asyncio) as server:
            for token in (None, "x" * 43, f"{known.token}x", (known.token or "")[:-1]):
                tls = replace(known, token=token)
                with Target(server.address, tls=tls).channel() as channel:
                    for method in METHODS:
                        call = channel.stream_stream(method)(iter(()), timeout=5.0)
                        if call.code() is not grpc.StatusCode.UNAUTHENTICATED:
                            wrong.append(f"{method}: {call.code()}")
    return ", ".join(wrong)


def _dangerous() -> tuple[list[str], list[str]]:
    """Return the places of our code that load pickles, and those that run text."""
    loads, runs = [], []
    for folder in ("kvstore", "benchmarks", "proofs", "tools"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    named = {alias.name.partition(".")[0] for alias in node.names}
                    source = getattr(node, "module", None) or ""
                    if LOADERS & (named | {source.partition(".")[0]}):
                        loads.append(f"{name}:{node.lineno}")
                elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                    if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                        loads.append(f"{name}:{node.value.lineno}")
                elif (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id in RUNNERS
                    and not name.startswith(RUNS_LEARNERS_CODE)
                ):
                    runs.append(f"{name}:{node.lineno}")
    return loads, runs


def _damaged_log(place: float) -> str:
    """Flip one bit of the log of a killed server; return what is wrong if it is not said."""
    with tempfile.TemporaryDirectory() as made:
        folder, copied = Path(made) / "data", Path(made) / "copy"
        store = DurableStore(
            ServerSettings(store=f"sqlite:{folder}", use_asyncio=True, write_delay_s=0)
        )
        for number in range(WRITES):
            assert store.apply(CREATE, b"%d" % number, b"value")[0] == OK
        shutil.copytree(folder, copied)  # as a crash leaves it: the log is not yet in the file
        store.close()
        log = copied / f"{FILE_NAME}-wal"
        damaged = bytearray(log.read_bytes())
        damaged[int(place * len(damaged))] ^= 1
        log.write_bytes(bytes(damaged))
        try:
            with serving(store=f"sqlite:{copied}", use_asyncio=True):
                with sqlite3.connect(copied / FILE_NAME) as _:
                    pass
                return "the server started, and acknowledged writes are missing without a word"
        except ServerDidNotStart as refused:
            said = str(refused)
    return "" if "damaged" in said and "acknowledged" in said else f"it said {said!r}"
