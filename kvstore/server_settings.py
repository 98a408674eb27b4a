"""The settings of a server: one object for `serving`, the command line and the server's process.

A new setting is one field of `ServerSettings`: the command line makes a flag of it, and it
reaches the server's process as JSON.
"""

import ipaddress
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from kvstore.flags import setting

LOCKINGS = ("global", "per_key", "per_key_held")
"""`global`: one lock, held by every operation through its disk time.
`per_key`: a lock for each key, held only while its entry changes, as in a concurrent map.
`per_key_held`: a lock for each key, held through the disk time: writers of one key queue up."""

DISK_TIMES = ("fixed", "two_point", "exponential", "heavy_tailed")
"""How the times of the simulated disk vary; their mean is always the declared delay S.
`fixed`: each is S. `two_point`: nine of ten are S/3, and one of ten is 7 S. `exponential`: drawn
from an exponential distribution. `heavy_tailed`: drawn from a lognormal distribution. Variance
divided by S² is 0, 4, 1 and 4, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server behaves.

    Raises `ValueError` naming the setting when its value makes no sense.
    """

    read_delay_s: float = setting(0.010, "seconds of simulated disk for a retrieve")
    write_delay_s: float = setting(
        0.050, "seconds of simulated disk for a create, update or delete"
    )
    disk_times: str = setting(
        "fixed",
        "how the times of the simulated disk vary around their mean, the read or write delay",
        choices=DISK_TIMES,
    )
    disk_seed: int = setting(
        1, "seed of these times: the same seed draws the same times; not used for fixed times"
    )
    locking: str = setting(
        "global",
        "one lock for all operations; or a lock for each key, held while its entry changes or"
        " through the disk time",
        choices=LOCKINGS,
    )
    threads: int = setting(128, "size of the thread pool; not used with asyncio")
    newest_first: bool = setting(
        False,
        "a free thread takes the call that came last, not the one that waited longest; not used"
        " with asyncio",
    )
    use_asyncio: bool = setting(False, "serve from one event loop instead of a thread pool")
    listen: str = setting(
        "127.0.0.1",
        "IP address to listen at, such as 0.0.0.0 for all; another than this machine's own loopback"
        " address needs tls",
    )
    tls: str | None = setting(
        None,
        "folder with a certificate and a token, made by `course.py class certificate FOLDER`",
    )
    """With it, connections are encrypted, and each call must carry the token. Clients need the
    files `ca.pem` and `token.txt` of the folder. Of more than 1,000 calls that wait until the
    server accepts them, gRPC cancels those beyond; a server without TLS lets 12,000 wait."""
    port: int = setting(0, "port to listen at; 0 lets the operating system choose a free one")
    max_concurrent_rpcs: int | None = setting(
        None, "calls beyond this many are refused with RESOURCE_EXHAUSTED; without it, none is"
    )
    max_streams: int | None = setting(
        None,
        "calls that one connection may have open at once (HTTP/2 streams); without it, no limit",
    )
    refuse_streams: bool = setting(
        True, "gRPC's overload protection: calls beyond max_streams are refused, not delayed"
    )
    """With it, a stream counts against `max_streams` until the server has freed it, a moment after
    its reply was sent. A client that sends the next call at once is refused with UNAVAILABLE.
    Without it, the call waits."""
    group_commit: bool = setting(
        False, "all writes that wait share one fsync, in a store on a disk; not used with memory"
    )
    stall_s: float = setting(
        0.0, "seconds for which the disk stalls, at the beginning of every stall_every_s"
    )
    stall_every_s: float = setting(
        1.0, "seconds from one stall of the disk to the next; not used without stall_s"
    )
    station_times: bool = setting(
        False, "report in trailing metadata how long each call spent at each station"
    )
    note_attempts: bool = setting(
        False,
        "note when each attempt of a call arrived and ended, for calls that threads send in a run",
    )
    """A call that gRPC retries is one call of its client: only a server sees its attempts."""
    store: str = setting(
        "memory",
        "where the data are: memory; on asyncio also sqlite:FOLDER or etcd:HOST:PORT,HOST:PORT,...",
    )
    """`memory`: gone when the server ends. `sqlite:FOLDER`: a file in this folder; a write is
    acknowledged only after its fsync. A server started again on the folder has all its data.
    `write_delay_s` is added before each transaction. `etcd:HOST:PORT,...`: the nodes of an etcd
    cluster; a write is acknowledged when a majority of them has it on disk. Locks and the simulated
    disk have no effect there."""
    servicer: str | None = setting(
        None, "file with a servicer class that `kvstore.server.hosted.pack` wrote, served as it is"
    )
    """Such a server has its own locks, sleeps and store: the settings of ours have no effect. It
    reports the disk times and the locking that it was seen to have. The file is a pickle: serve
    none that a stranger wrote."""
    back_end: str | None = setting(
        None, "host:port of another server to which every unary call is forwarded"
    )
    """A server with a back end has no disk, locks and store of its own: their settings have no
    effect, and the disk time it reports is the time at the back end."""
    back_end_timeout_s: float | None = setting(
        None, "seconds that each call may take at the back end; then the answer is UNAVAILABLE"
    )
    """Without it, a call may take as long as its caller waits. The back end learns the deadline of
    the call, but it finishes a call that it has begun."""

    def __post_init__(self) -> None:
        for name in ("read_delay_s", "write_delay_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 60:
                raise ValueError(
                    f"{name} must be a number of seconds from 0 to 60, got {value!r}"
                    " (10 ms is 0.010)"
                )
        timeout_s = self.back_end_timeout_s
        if timeout_s is not None and not 0 < timeout_s < 60:
            raise ValueError(
                f"back_end_timeout_s must be above 0 and below 60 seconds, got {timeout_s!r}"
            )
        if not 0 <= self.stall_s < self.stall_every_s < 3600:
            raise ValueError(
                f"stall_s must be from 0 to less than stall_every_s, got {self.stall_s!r} of every"
                f" {self.stall_every_s!r} seconds"
            )
        for each in fields(self):
            value, choices = getattr(self, each.name), each.metadata["choices"]
            if choices and value not in choices:
                raise ValueError(f"{each.name} must be one of {', '.join(choices)}, got {value!r}")
            if isinstance(each.default, bool) and not isinstance(value, bool):
                raise ValueError(f"{each.name} must be True or False, got {value!r}")
        for name, (lowest, highest) in _WHOLE_NUMBERS.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if value is None and name in _UNLIMITED:
                continue
            if not whole or not lowest <= value <= highest:
                raise ValueError(
                    f"{name} must be a whole number from {lowest} to {highest}, got {value!r}"
                )
        _check_listen(self)
        _check_store(self)
        if self.back_end is not None and not is_address(self.back_end):
            raise ValueError(
                f"back_end must be host:port, such as 127.0.0.1:40123, got {self.back_end!r}: the"
                " address of a server from `with serving() as other:` is `other.address`"
            )

    @property
    def store_kind(self) -> str:
        """The first word of `store`: memory, sqlite or etcd."""
        return self.store.partition(":")[0]

    @property
    def store_place(self) -> str:
        """The rest of `store`: the folder of sqlite, or the addresses of etcd's nodes."""
        return self.store.partition(":")[2]

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, ready for JSON."""
        return asdict(self)

    def to_json(self) -> str:
        """Return all settings as JSON text, for `from_json` in another process."""
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str) -> "ServerSettings":
        """Return the settings that `to_json` wrote. Raises `ValueError` for any other text."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"these are not the settings of a server: {error}") from error


_UNLIMITED = ("max_streams", "max_concurrent_rpcs")
_WHOLE_NUMBERS = {
    "threads": (1, 10_000),
    "port": (0, 65_535),
    "disk_seed": (0, 2**32 - 1),
    **dict.fromkeys(_UNLIMITED, (1, 10_000_000)),
}
"""The lowest and the highest value of each setting that is a whole number."""


def _check_listen(settings: ServerSettings) -> None:
    try:
        address = ipaddress.ip_address(settings.listen)
    except ValueError:
        raise ValueError(
            "listen must be an IP address, such as 127.0.0.1, or 0.0.0.0 for all addresses of this"
            f" machine, got {settings.listen!r}"
        ) from None
    if settings.tls is not None and (not isinstance(settings.tls, str) or not settings.tls):
        raise ValueError(f"tls must be the name of a folder, got {settings.tls!r}")
    if not address.is_loopback and settings.tls is None:
        raise ValueError(
            f"listen {settings.listen}: other machines can reach this address, so the server needs"
            " TLS and a token. `python3 course.py class certificate FOLDER --host NAME` makes both"
            " in a new folder; then give --tls FOLDER"
        )


def _check_store(settings: ServerSettings) -> None:
    store = settings.store
    kind, _, place = store.partition(":") if isinstance(store, str) else ("", "", "")
    addresses = place.split(",") if kind == "etcd" else []
    if (
        kind not in ("memory", "sqlite", "etcd")
        or (kind == "memory") != (store == "memory")
        or (kind != "memory" and not place)
        or not all(is_address(address) for address in addresses)
    ):
        raise ValueError(
            "store must be memory, sqlite:FOLDER, or etcd:HOST:PORT with several nodes separated"
            f" by commas, got {store!r}"
        )
    if settings.group_commit and kind == "etcd":
        raise ValueError("store etcd: each operation is a call of etcd, so it has no group_commit")
    if kind == "memory":
        return
    if not settings.use_asyncio:
        raise ValueError(f"store {kind} is served on asyncio only: add use_asyncio=True")
    if settings.back_end is not None:
        raise ValueError(
            f"store {kind} and back_end exclude each other: a server with a back end stores nothing"
            " itself"
        )


def is_address(text: object) -> bool:
    """Return whether this is the text HOST:PORT of one server."""
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    return bool(host) and "," not in host and port.isdigit()
