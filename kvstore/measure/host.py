"""The machine and the versions of a run, and the time that an fsync takes on its disk."""

import os
import platform
import sys
import time
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from kvstore.measure.recorder import Times

PACKAGES = ("grpcio", "protobuf", "uvloop", "numpy", "pandas")


def describe_host() -> dict[str, Any]:
    """Return processor, memory, system and versions, for JSON."""
    return dict(_machine())


def host_in_words() -> str:
    """Return processor, cores, memory, system and versions as the end of a sentence."""
    host = describe_host()
    return (
        f"{host['cores']} cores, {host['processor']}, {host['memory_bytes'] / 2**30:.0f} GiB, "
        f"{platform.system()}, Python {host['python']}, grpcio {host['grpcio']}"
    )


@cache
def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory_bytes() -> float:
    """Return the bytes of free memory: of the machine, or of the control group if it has less."""
    free = float(psutil.virtual_memory().available)
    for limit, used in _CONTROL_GROUPS:
        try:
            most = float(Path(limit).read_text("ascii"))
            free = min(free, most - float(Path(used).read_text("ascii")))
        except (OSError, ValueError):
            pass  # no such group, or its limit reads "max"
    return max(0.0, free)


_CONTROL_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


FSYNCS, WRITTEN_BYTES = 50, 4096
"""How many appends `fsyncs_s` makes, and their size."""


def fsyncs_s(folder: str | Path) -> Times:
    """Return the seconds that each of 50 appends of 4 KiB took, fsync included.

    It writes to a temporary file in `folder`. On a file system in memory (tmpfs) an fsync takes
    almost no time, and little on a disk whose cache has a battery. On macOS the drive empties its
    own cache as well (F_FULLFSYNC). Raises `OSError` for a folder that cannot be written.
    """
    file = Path(folder) / f"fsync-{os.getpid()}"
    taken_s = np.empty(FSYNCS)
    descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        for number in range(FSYNCS):
            began_s = time.perf_counter()
            os.write(descriptor, bytes(WRITTEN_BYTES))
            _sync(descriptor)
            taken_s[number] = time.perf_counter() - began_s
    finally:
        os.close(descriptor)
        file.unlink()
    return taken_s


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
