"""Cases drawn from a seed, and six with names: each is bound by another station."""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from kvstore.client.workload import Workload
from kvstore.course.design.choice import Design
from kvstore.course.design.service import (
    HOT_KEY,
    IN_FLIGHT,
    LOCK,
    POOL,
    PROCESSOR,
    STREAMS,
    Case,
    Price,
    Target,
)
from kvstore.model import popularity, service_time_s

KEYS, HOT_KEYS = 32, 8
"""Keys of a service; and of one where some are asked for more than others."""
HEADERS: Final = MappingProxyType({f"x-trace-{n}": "a header of some length" for n in range(6)})


def case(seed: int | str) -> Case:
    """The case of a whole number, always the same one; or of a name out of `NAMED`.

    Raises `ValueError` for any other word.
    """
    if isinstance(seed, str):
        if seed not in NAMED:
            raise ValueError(
                f"there is no case {seed!r}: {', '.join(NAMED)}, or any whole number, has one"
            )
        return _FAMILIES[seed](seed, random.Random(seed))
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"a case is drawn from a whole number, got {seed!r}")
    rng = random.Random(seed)
    return _FAMILIES[rng.choice(NAMED)](f"case_{seed}", rng)


def _lock(name: str, rng: random.Random) -> Case:
    disk, reads, asked = _traffic(rng, slow=2, preload=KEYS // 2)
    mean_s = service_time_s(asked.mix, **disk)
    return Case(
        id=name,
        told=(
            "A shop keeps its carts in it. Nobody remembers who wrote it, and why.",
            *_of_traffic(reads),
            "A pool of 64 threads serves it; its processor is nearly idle.",
        ),
        server={**disk, "locking": "global", "threads": 64},
        workload=asked,
        start=Design("bounded", 16),
        target=Target(per_s=_round(3 / mean_s), p99_s=0.6, most_in_flight=32),
        offers={
            **_offers(rng, "threads=128", "asyncio", "per_key", sometimes="group_commit"),
            **_offers(rng, "servers=2"),
        },
        binds=LOCK,
        tempting=Design("bounded", 32, changes=("threads=128",)),
    )


def _pool(name: str, rng: random.Random) -> Case:
    disk, reads, asked = _traffic(rng, slow=2)
    threads = rng.choice((2, 3))
    mean_s = service_time_s(asked.mix, **disk)
    return Case(
        id=name,
        told=(
            "It looks up prices, and was moved to a small machine last year.",
            *_of_traffic(reads),
            "A pool of threads serves it, of a size that somebody set back then.",
        ),
        server={**disk, "locking": "per_key", "threads": threads},
        workload=asked,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * threads / mean_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "threads=32", "threads=128", "asyncio", sometimes="group_commit"),
        binds=POOL,
        tempting=Design("pipelined", 32),
    )


def _hot_key(name: str, rng: random.Random) -> Case:
    disk, reads, asked = _traffic(rng, reads=0.25, key_choice="zipf", preload=HOT_KEYS)
    station = popularity.hottest_lock(
        HOT_KEYS, 1.0, hold_s=disk["write_delay_s"], locking_share=1 - reads
    )
    return Case(
        id=name,
        told=(
            "It counts votes: a few candidates get most of them.",
            *_of_traffic(reads),
            f"There are {HOT_KEYS} keys; the second is asked for half as often as the first, the"
            " third a third as often, and so on.",
            "Locks are per key, it is said, and held until the disk is done. 64 threads.",
        ),
        server={**disk, "locking": "per_key_held", "threads": 64},
        workload=asked,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * station.most_per_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "threads=128", "asyncio", "per_key", sometimes="group_commit"),
        binds=HOT_KEY,
        tempting=Design("bounded", 32, changes=("asyncio",)),
    )


def _disk(name: str, rng: random.Random) -> Case:
    disk, reads, asked = _traffic(rng, slow=2)
    mean_s = service_time_s(asked.mix, **disk)
    return Case(
        id=name,
        told=(
            "It writes the log of a bank, on a disk that is as slow as it is safe.",
            *_of_traffic(reads),
            "One event loop serves it, and there is no lock through the disk.",
            "Memory is short: 8 calls in flight are all that the client may hold.",
        ),
        server={**disk, "locking": "per_key", "use_asyncio": True},
        workload=asked,
        start=Design("bounded", 8),
        target=Target(per_s=_round(3 * 8 / mean_s), p99_s=0.5, most_in_flight=8),
        offers=_offers(rng, "group_commit"),
        binds=IN_FLIGHT,
        tempting=Design("pipelined", 8, batch=8),
    )


def _cpu(name: str, rng: random.Random) -> Case:
    asked = _workload(rng, reads=0.75)
    work = rng.choice((300, 400))
    return Case(
        id=name,
        told=(
            "It answers from memory, next to no disk is left, and is slow all the same.",
            *_of_traffic(0.75),
            f"One event loop serves it. Each call brings {len(HEADERS)} headers for tracing, and"
            " an interceptor writes them out, for each call anew.",
        ),
        server={
            "read_delay_s": 0.001,
            "write_delay_s": 0.002,
            "locking": "per_key",
            "use_asyncio": True,
            "metadata_work": work,
        },
        workload=asked,
        start=Design("bounded", 16),
        target=Target(times_start=2.0, p99_s=0.4, most_in_flight=32),
        offers=_offers(rng, "group_commit", "servers=2"),
        binds=PROCESSOR,
        tempting=Design("bounded", 32, changes=("group_commit",)),
        price=Price(call_s=5e-6 * work),
        headers=HEADERS,
    )


def _cap(name: str, rng: random.Random) -> Case:
    disk, reads, asked = _traffic(rng, slow=2)
    streams = rng.choice((3, 4))
    mean_s = service_time_s(asked.mix, **disk)
    return Case(
        id=name,
        told=(
            "It belongs to another company. Their server is never busy, they say.",
            *_of_traffic(reads),
            "One event loop serves it, without a lock through the disk. What stands between you"
            " and them, nobody has written down.",
        ),
        server={
            **disk,
            "locking": "per_key",
            "use_asyncio": True,
            "max_streams": streams,
            "refuse_streams": False,
        },
        workload=asked,
        start=Design("bounded", 32),
        target=Target(per_s=_round(3 * streams / mean_s), p99_s=0.6, most_in_flight=32),
        offers=_offers(rng, "group_commit"),
        binds=STREAMS,
        tempting=Design("tasks", 32, changes=("group_commit",)),
    )


_FAMILIES: Final[Mapping[str, Callable[[str, random.Random], Case]]] = {
    "lock": _lock,
    "pool": _pool,
    "hot_key": _hot_key,
    "disk": _disk,
    "cpu": _cpu,
    "cap": _cap,
}
NAMED: Final = tuple(_FAMILIES)
"""The cases with names."""

_DAYS: Final = {
    "threads=32": (1, 3),
    "threads=128": (3, 5),
    "asyncio": (4, 8),
    "per_key": (3, 6),
    "group_commit": (2, 6),
    "servers=2": (5, 8),
}
"""From how many days to how many a change may take."""


def _traffic(
    rng: random.Random, *, slow: int = 1, reads: float | None = None, **keys: Any
) -> tuple[dict[str, float], float, Workload]:
    """Disk times, the share of reads, and the workload."""
    disk = {
        "read_delay_s": slow * rng.choice((0.005, 0.008, 0.010)),
        "write_delay_s": slow * rng.choice((0.025, 0.030, 0.035)),
    }
    share = rng.choice((0.25, 0.5)) if reads is None else reads
    return disk, share, _workload(rng, share, **keys)


def _workload(rng: random.Random, reads: float, **keys: Any) -> Workload:
    return Workload(
        mix={"retrieve": reads, "update": 1 - reads},
        seed=rng.randrange(1000),
        key_bytes_mean=16,
        value_bytes_mean=rng.choice((16, 64, 256, 1024)),
        sizes="fixed",
        **{"preload": KEYS, **keys},
    )


def _of_traffic(reads: float) -> tuple[str, ...]:
    return (f"{reads:.0%} of the operations are reads, the others update what is there.",)


def _offers(rng: random.Random, *names: str, sometimes: str = "") -> dict[str, int]:
    offers = {name: rng.randint(*_DAYS[name]) for name in names}
    if sometimes and rng.random() < 0.5:
        offers[sometimes] = rng.randint(*_DAYS[sometimes])
    return offers


def _round(per_s: float) -> float:
    """To tens: a target is a round number."""
    return 10.0 * round(per_s / 10)
