"""The same service in Go: `serving_go`, for comparisons of languages.

The source is in the folder `go` beside this file. It is built once for each version of the source,
with the `go` of this machine, and kept in the cache folder of the user.
"""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from kvstore.server.errors import ServerDidNotStart
from kvstore.server.launch import START_S, Server
from kvstore.server.settings import ServerSettings
from kvstore.subprocesses import process

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
    command = [str(_program()), f"-settings={_json_of(chosen)}", f"-identity={identity}"]
    with process(command) as started:
        address = started.first_line(START_S)
        if not address:
            raise ServerDidNotStart(f"the server in Go did not listen: {started.error_text()}")
        yield Server(address, identity, chosen, started)


def _json_of(settings: ServerSettings) -> str:
    return json.dumps({name: getattr(settings, name) for name in UNDERSTOOD})


def _program() -> Path:
    """Return the path of the program, built now if the source has changed."""
    go = shutil.which("go")
    if go is None or not go_is_installed():
        raise ServerDidNotStart(
            "the server in Go is built with `go`, which is not on the PATH: install Go 1.24 or"
            " newer (apt-get install golang-go, brew install go, conda install go), or leave this"
            " part out"
        )
    sources = sorted(path for path in SOURCE.rglob("*") if path.is_file())
    version = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    program = user_cache_path("rpc-throughput-course") / f"go_server_{version}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partly = program.with_suffix(f".{os.getpid()}")
        built = subprocess.run(
            [go, "build", "-mod=readonly", "-o", partly, "."],
            cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_S,
        )  # fmt: skip
        if built.returncode:
            raise ServerDidNotStart(f"the server in Go could not be built: {built.stderr.strip()}")
        partly.replace(program)  # in one step: another process may build it at the same time
    return program
