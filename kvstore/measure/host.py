"""The machine and the versions a run was made with; without them a figure means little."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from kvstore.awake import kept_awake

PACKAGES = ("grpcio", "protobuf", "uvloop", "numpy", "pandas")


def describe_host() -> dict[str, Any]:
    """Processor, memory, system and versions, and whether cores are kept awake; ready for JSON."""
    return {**_machine(), "cores_kept_awake": kept_awake()}


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
    """Processors this process may run on, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory_bytes() -> float:
    """Memory that can still be used here: the machine's, or its control group's if less."""
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
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
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
