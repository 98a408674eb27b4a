"""What can be set on a server, checked in one place."""

from dataclasses import asdict, dataclass
from typing import Any

LOCKINGS = ("global", "per_key", "per_key_held")
"""`global`: one lock, held by every operation through its disk time.
`per_key`: a lock for each key, held only while its entry changes, as in a concurrent map.
`per_key_held`: the same, held through the disk time: writers of one key queue up."""

WRITINGS = ("in_one_step", "read_then_write", "compare_and_replace")
"""`in_one_step`: a call that writes looks at the key and changes it at once, after the disk.
`read_then_write`: it looks, uses the disk, and writes what follows from what it saw.
`compare_and_replace`: it looks, uses the disk, and writes if the key still holds what it saw;
if not, it begins again. Where `locking` holds a lock through the disk, and in a group that is
committed together, all three come to the same: nobody can come between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How a server behaves.

    Raises `ValueError` naming the setting when one makes no sense.
    """

    read_delay_s: float = 0.010
    """Seconds of simulated disk for a retrieve."""
    write_delay_s: float = 0.050
    """Seconds of simulated disk for a create, update or delete."""
    locking: str = "global"
    """One of `LOCKINGS`."""
    writing: str = "in_one_step"
    """One of `WRITINGS`."""
    threads: int = 128
    """Size of the thread pool; not used with `use_asyncio`."""
    use_asyncio: bool = False
    """Serve from one event loop instead of a thread pool."""
    port: int = 0
    """Port on the loopback interface; 0 lets the operating system choose a free one."""
    max_concurrent_rpcs: int | None = None
    """Calls beyond this many are refused with RESOURCE_EXHAUSTED; None accepts all."""
    max_streams: int | None = None
    """Calls that one connection may have open at once (HTTP/2 streams); None sets no limit."""
    refuse_streams: bool = True
    """Whether gRPC's overload protection is on, as it is by default: a stream then counts
    against `max_streams` until the server has freed it, a moment after its answer went out, and
    a client that sends the next call at once is refused with UNAVAILABLE. Off, it waits."""
    group_commit: bool = False
    """A batch pays the disk once, as databases do: one read delay if it only reads, else one
    write delay. Otherwise each of its operations pays its own, one after the other."""
    time_needed_s: float = 0.0
    """Seconds of its deadline that a unary call must have left when its work begins, for the
    disk and the way back; with less it is answered DEADLINE_EXCEEDED at once."""
    stall_s: float = 0.0
    """Seconds that the disk stands still, at the beginning of every `stall_every_s`."""
    stall_every_s: float = 1.0
    """Seconds from one stall to the next; not used without `stall_s`."""
    station_times: bool = False
    """Tell each caller, in trailing metadata, where the server spent its time."""
    metadata_work: int = 0
    """How often an interceptor reads all metadata of a call and writes it out as text."""
    default_limits: bool = False
    """Leave gRPC's own caps on calls that wait to be taken: a burst loses those above them."""
    settle_garbage: bool = True
    """Keep the collector away from what lives long, and call it less often; see `garbage`."""
    data_dir: str | None = None
    """Folder in which every write is on the disk, with fsync, before it is answered; a server
    started again on it knows them all. `group_commit` then takes in whatever waits, and
    `write_delay_s` is paid before each transaction. None keeps everything in memory alone."""
    back_end: str | None = None
    """Host and port of another key-value server that this one asks for every answer. It takes
    the place of disk, locks and store: their settings have no effect, and the time of the disk
    is the time at the back end. Several, with commas between, are replicas of one another."""
    write_quorum: int | None = None
    """How many of the back ends must have answered a write before it is answered; see
    `replicated`. None for a back end that is alone."""

    def __post_init__(self) -> None:
        for name in ("read_delay_s", "write_delay_s", "time_needed_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 60:
                raise ValueError(
                    f"{name} must be a number of seconds from 0 to 60, got {value!r}"
                    " (10 ms is 0.010)"
                )
        if not 0 <= self.stall_s < self.stall_every_s < 3600:
            raise ValueError(
                f"stall_s must be from 0 to less than stall_every_s, got {self.stall_s!r} of every"
                f" {self.stall_every_s!r} seconds"
            )
        if self.locking not in LOCKINGS:
            raise ValueError(f"locking must be one of {', '.join(LOCKINGS)}, got {self.locking!r}")
        if self.writing not in WRITINGS:
            raise ValueError(f"writing must be one of {', '.join(WRITINGS)}, got {self.writing!r}")
        _whole_number("threads", self.threads, 1, 10_000)
        _whole_number("port", self.port, 0, 65_535)
        _whole_number("metadata_work", self.metadata_work, 0, 1_000)
        for name in ("group_commit", "default_limits", "settle_garbage"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if not isinstance(self.refuse_streams, bool):
            raise ValueError(f"refuse_streams must be True or False, got {self.refuse_streams!r}")
        if self.max_streams is not None:
            _whole_number("max_streams", self.max_streams, 1, 10_000_000)
        if self.max_concurrent_rpcs is not None:
            _whole_number("max_concurrent_rpcs", self.max_concurrent_rpcs, 1, 10_000_000)
        if self.data_dir is not None:
            _folder(self)
        if self.back_end is not None or self.write_quorum is not None:
            _back_ends(self)

    def as_dict(self) -> dict[str, Any]:
        """The settings by name, ready for JSON."""
        return asdict(self)


def _whole_number(name: str, value: object, lowest: int, highest: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not lowest <= value <= highest:  # type: ignore[operator]
        raise ValueError(f"{name} must be a whole number from {lowest} to {highest}, got {value!r}")


def _folder(settings: ServerSettings) -> None:
    if not isinstance(settings.data_dir, str) or not settings.data_dir:
        raise ValueError(
            f"data_dir must be the path of a folder, as text, got {settings.data_dir!r}"
        )
    if settings.writing != "in_one_step":
        raise ValueError(
            "data_dir: one thread writes to the disk and looks as it writes, so writing must be"
            f" in_one_step, got {settings.writing!r}"
        )
    if settings.back_end is not None:
        raise ValueError(
            "data_dir and back_end: a server with a back end keeps nothing itself, give one of them"
        )


def _back_ends(settings: ServerSettings) -> None:
    told, quorum = settings.back_end, settings.write_quorum
    addresses = told.split(",") if isinstance(told, str) else [""]
    for address in addresses if told is not None else ():
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(
                f"back_end must be host:port, such as 127.0.0.1:40123, got {told!r}: of a server"
                " from `with serving() as other:` it is `other.address`"
            )
    if quorum is None:
        if len(addresses) > 1:
            raise ValueError(
                f"{len(addresses)} back ends: write_quorum says how many of them must have a write"
            )
        return
    if told is None:
        raise ValueError("write_quorum counts back ends, and back_end names none")
    _whole_number("write_quorum", quorum, 1, len(addresses))
    if not settings.use_asyncio:
        raise ValueError(
            "write_quorum needs use_asyncio=True: a thread for each replica of each call is not"
            " on offer"
        )
