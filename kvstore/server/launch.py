"""Start servers in their own processes, for a block: Python's, several of them, and Go's."""

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from kvstore.server_settings import ServerSettings
from kvstore.subprocesses import Child, child, deleted_at_our_end, process, shielded

START_S = 20.0
"""Seconds in which a server must start; a cold import on a slow laptop takes several."""

SIDE_BY_SIDE = 4
"""Number of servers that start at the same time; more would only compete for the cores."""


@dataclass(frozen=True)
class Server:
    """A running server: its address, identity and settings."""

    address: str
    """Host and port, as gRPC clients take it."""
    identity: str
    """The word that it reports, so that no other server is measured by mistake."""
    settings: ServerSettings
    child: Child = field(repr=False)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all its processes: one."""
        return (self.pid,)

    def alive(self) -> bool:
        """Return whether the process still runs."""
        return self.child.alive()

    def kill(self) -> None:
        """End the process at once, as a crash does; return when it has ended."""
        self.child.popen.kill()
        self.child.popen.wait()


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    """Serve from a process of its own while the block lasts; yield the server.

    The settings are those of `ServerSettings`. The process ends with the block, and when this
    process ends in any way. When this process is killed, a folder of `tempfile` with the server's
    data is deleted; any other folder stays.

    Raises:
        ValueError: a setting makes no sense.
        ServerDidNotStart: with the server's error output when it could not start.
    """
    with serving_replicas([settings]) as one:
        yield one.servers[0]


def _start(settings: ServerSettings, running: ExitStack) -> Callable[[], Server]:
    """Start a process that `running` ends; return a function that waits until it listens."""
    identity = secrets.token_hex(8)
    arguments = [f"--settings={settings.to_json()}", f"--identity={identity}"]
    if (folder := _temporary(settings)) is not None:
        running.enter_context(deleted_at_our_end(folder))
    process = running.enter_context(child("kvstore.server", arguments))

    def listening() -> Server:
        address = process.first_line(START_S)
        if not address:
            raise ServerDidNotStart(_why(process))
        return Server(address, identity, settings, process)

    return listening


def _temporary(settings: ServerSettings) -> Path | None:
    """Return the folder made by `tempfile` that has the data; None if they are elsewhere.

    Who made it deletes it, unless it is killed: then nothing else would.
    """
    if settings.store_kind != "sqlite":
        return None
    place = Path(settings.store_place).absolute()
    everything = Path(tempfile.gettempdir()).absolute()
    if place == everything or not place.is_relative_to(everything):
        return None
    top = everything / place.relative_to(everything).parts[0]
    is_of_tempfile = re.fullmatch(rf"{tempfile.gettempprefix()}[a-z0-9_]{{8}}", top.name)
    return top if is_of_tempfile else None


def _settings(settings: Mapping[str, Any]) -> ServerSettings:
    known = ServerSettings.__dataclass_fields__
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(
            f"serving() knows no setting {', '.join(unknown)}; it knows {', '.join(known)}"
        )
    return ServerSettings(**settings)


def _why(process: Child) -> str:
    status = process.ended(within_s=1.0)  # the output ends a moment before the process
    if status is None:
        return f"the server printed no address within {START_S:g} s; its process was ended"
    text = process.error_text() or "it wrote no error"
    return f"the server ended before it listened (exit status {status}): {text}"


@dataclass(frozen=True)
class ShardedServer:
    """Running servers with one target: number i has the keys of shard i, or each has all keys."""

    servers: tuple[Server, ...]

    @property
    def address(self) -> str:
        """Host and port of each server in the order of the shards, separated by commas."""
        return ",".join(server.address for server in self.servers)

    @property
    def identity(self) -> str:
        """The identity of each server in the same order, separated by commas."""
        return ",".join(server.identity for server in self.servers)

    @property
    def settings(self) -> ServerSettings:
        """The settings of the first one; all shards have the same."""
        return self.servers[0].settings

    @property
    def pids(self) -> tuple[int, ...]:
        """Their process ids."""
        return tuple(server.pid for server in self.servers)

    def alive(self) -> bool:
        """Return whether all of the processes still run."""
        return all(server.alive() for server in self.servers)


@contextmanager
def serving_replicas(every: Sequence[Mapping[str, Any]]) -> Iterator[ShardedServer]:
    """Serve from a process for each of these settings while the block lasts; yield the servers.

    They know nothing of each other. A run sends each operation to the server of its key, by
    `protocol.shard_of`. With `choose=`, it gives each a copy of its keys, and sends a call to any
    of them. `SIDE_BY_SIDE` servers start at the same time, because a start is mostly imports.
    Raises as `serving` does for any of them; the others are stopped.
    """
    chosen = [_settings(each) for each in every]
    with ExitStack() as running:
        servers: list[Server] = []
        for at in range(0, len(chosen), SIDE_BY_SIDE):
            # Not in threads: Ctrl-C can make a pool of threads forget one that it has just started.
            # With the shield, no process is running that `running` does not know.
            with shielded():
                starting = [_start(each, running) for each in chosen[at : at + SIDE_BY_SIDE]]
            servers += [listening() for listening in starting]
        yield ShardedServer(tuple(servers))


# The same service in Go, for comparisons of languages. It is built once for each version of its
# source, with the `go` of this machine, and kept in the cache folder of the user.


SOURCE = Path(__file__).parent / "go"
BUILD_S = 600.0
"""Seconds for a build; the first one downloads grpc-go."""
UNDERSTOOD = ("read_delay_s", "write_delay_s", "locking", "station_times")
"""The settings of `ServerSettings` that the server in Go has; all others keep their defaults."""


def go_is_installed() -> bool:
    """Return whether this machine has `go`, and a system for which the server is written."""
    return sys.platform != "win32" and shutil.which("go") is not None


@contextmanager
def serving_go(**settings: Any) -> Iterator[Server]:
    """Serve from a process of the server in Go while the block lasts; yield the server.

    The settings are those in `UNDERSTOOD`; `locking` is `global` or `per_key`.

    Raises:
        ValueError: a setting makes no sense, or the server in Go does not have it.
        ServerDidNotStart: without `go`, or with the output of the build or of the server.
    """
    chosen = ServerSettings(**settings)
    if other := sorted(set(settings) - set(UNDERSTOOD)):
        raise ValueError(
            f"the server in Go has no setting {', '.join(other)}; it has {', '.join(UNDERSTOOD)}"
        )
    if chosen.locking == "per_key_held":
        raise ValueError("the server in Go has the locking global or per_key")
    identity = secrets.token_hex(8)
    understood = json.dumps({name: getattr(chosen, name) for name in UNDERSTOOD})
    command = [str(_program()), f"-settings={understood}", f"-identity={identity}"]
    with process(command) as started:
        address = started.first_line(START_S)
        if not address:
            raise ServerDidNotStart(f"the server in Go did not listen: {started.error_text()}")
        yield Server(address, identity, chosen, started)


def _program() -> Path:
    """Return the path of the program, built now if the source has changed."""
    if not go_is_installed():
        raise ServerDidNotStart(
            "the server in Go is built with `go`, which is not on the PATH: install Go 1.24 or"
            " newer (apt-get install golang-go, brew install go, conda install go), or leave this"
            " part out"
        )
    files = [path for path in sorted(SOURCE.rglob("*")) if path.is_file()]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    program = user_cache_path("rpc-throughput-course") / f"go_server_{version}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partly = program.with_suffix(f".{os.getpid()}")
        built = subprocess.run(
            ["go", "build", "-mod=readonly", "-o", partly, "."],
            cwd=SOURCE,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
        )
        if built.returncode:
            raise ServerDidNotStart(f"the server in Go could not be built: {built.stderr.strip()}")
        partly.replace(program)  # in one step: another process may build it at the same time
    return program


class ServerDidNotStart(RuntimeError):
    """The server's process ended, or printed no address, before it listened."""


class EtcdNotInstalled(RuntimeError):
    """There is no etcd on this machine."""
