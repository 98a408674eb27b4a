"""Transport profiles: named sets of gRPC's settings, set before a process imports gRPC.

A profile is chosen with `ServerSettings.transport` for a server, and with the environment variable
`COURSE_TRANSPORT` for the process of a client. `import kvstore` applies the choice, unless gRPC was
imported before. A run records the profiles of client and server.
"""

import mmap
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

CHOICE: Final = "COURSE_TRANSPORT"
"""The environment variable with the name of the profile of this process."""
EXPERIMENTS: Final = "GRPC_EXPERIMENTS"
"""gRPC's own variable: names of its experiments, each after a minus sign to turn it off."""
VERBOSITY: Final = "GRPC_VERBOSITY"
"""gRPC's own variable: what its log says. Below ERROR, the log has raw text of a peer's GOAWAY."""

PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
"""The environment variables in which gRPC looks for a proxy."""
NO_PROXY: Final = "no_grpc_proxy"
"""gRPC's own variable in place of `no_proxy`: hosts that are called without a proxy."""
LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1")


class Transport(NamedTuple):
    """A named set of gRPC's settings."""

    name: str
    off: tuple[str, ...]
    """Experiments of gRPC that it turns off."""

    @property
    def experiments(self) -> str:
        """The value of gRPC's variable; empty for gRPC's own settings."""
        return ",".join(f"-{each}" for each in self.off)


STOCK: Final = Transport("stock", ())
POLLER: Final = Transport("poller", ("event_engine_client", "event_engine_listener"))
"""Fewer hand-overs: the thread that polls the socket also reads the message. With the event engine,
one of its threads reads, and wakes the poller. It is an older part of gRPC, which a later release
may remove; asyncio tasks with unary calls may be slower.
"""
TRANSPORTS: Final = {each.name: each for each in (STOCK, POLLER)}
"""All profiles by name."""
NAMES: Final = tuple(TRANSPORTS)
DEFAULT: Final = STOCK.name
"""For every strategy: a learner measures gRPC as they would run it.

As measured (docs/performance.md), `poller` makes more of many streams and of batches, above all on
both sides, and hardly more of unary calls. So it is a choice of those who run such streams.
"""


def environment(name: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a process with this profile.

    `GRPC_EXPERIMENTS` stays as it is if its value is not that of a profile.
    """
    variables = dict(os.environ if base is None else base)
    if _is_ours(variables.get(EXPERIMENTS)):
        variables.pop(EXPERIMENTS, None)
        if experiments := TRANSPORTS[name].experiments:
            variables[EXPERIMENTS] = experiments
    return {**variables, CHOICE: name}


def choose() -> None:
    """Apply the profile that the environment names to this process, unless gRPC is imported."""
    name = os.environ.get(CHOICE) or DEFAULT
    if name in TRANSPORTS and "grpc" not in sys.modules:
        os.environ.update(environment(name))


def quiet_log() -> None:
    """Let gRPC log errors only, unless the environment says what it logs.

    It reads the variable when it is imported.
    """
    os.environ.setdefault(VERBOSITY, "ERROR")


def call_this_machine_directly() -> None:
    """Let gRPC call this machine without a proxy, whatever channel a program opens.

    gRPC would send calls to 127.0.0.1 to the proxy of `http_proxy`, unless `no_proxy` names it.
    """
    if any(os.environ.get(name) for name in PROXIES):
        known = os.environ.get(NO_PROXY) or os.environ.get("no_proxy") or ""
        names = [each for each in known.split(",") if each]
        os.environ[NO_PROXY] = ",".join([*names, *(n for n in LOOPBACK if n not in names)])


def in_force() -> str:
    """Return the name of this process's profile, with a note where gRPC does not know it.

    Experiments that no profile has are returned as they are.
    """
    value = os.environ.get(EXPERIMENTS)
    if not _is_ours(value):
        return str(value)
    found = next(each for each in TRANSPORTS.values() if each.experiments == (value or ""))
    if missing := unknown(found):
        return f"{STOCK.name} (this grpcio does not know {', '.join(missing)})"
    return found.name


def unknown(transport: Transport) -> tuple[str, ...]:
    """Return the experiments of a profile that the installed grpcio does not know."""
    if not transport.off:
        return ()
    import grpc

    for library in Path(grpc.__file__).parent.rglob("*"):
        if library.suffix in (".so", ".pyd"):
            with (
                library.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                return tuple(each for each in transport.off if content.find(each.encode()) < 0)
    return ()


def _is_ours(experiments: str | None) -> bool:
    return (experiments or "") in {each.experiments for each in TRANSPORTS.values()}
