"""`replay(run)`: the calls of a measured run, moving through the stations where their time went.

The picture is one block of HTML with its data and `replay.js`. It needs no kernel, no network and
no widget, so it also works in an exported page, on the site and on slides.
"""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore import numbers
from kvstore.course import live, progress, questions, rendering
from kvstore.measure import Run
from kvstore.measure.attempts import Attempts, attempts_of
from kvstore.measure.audit import in_flight_between
from kvstore.protocol import CANCELLED, DEADLINE_EXCEEDED, OK, STATUSES
from kvstore.server_settings import ServerSettings

MOST_CALLS: Final = 10_000
"""The most calls of one run that a page gets: about 0.4 MB."""
BINS: Final = 200
"""Points of the curves X(t) and L(t)."""
HELD: Final = ("global", "per_key_held")
"""The lockings that hold their lock while the disk works: a call waits for the lock first."""

GIVEN_UP: Final = (CANCELLED, DEADLINE_EXCEEDED)
"""Statuses of calls that their client ended, wherever they were."""

UNKNOWN: Final = "not known"
"""The room of calls that ended without the times of the server's stations."""
BETWEEN: Final = "between attempts"
"""The room of calls that are to be sent again."""


class Room(NamedTuple):
    """A station in the picture, and how its number of calls is written: "3 waiting"."""

    label: str
    what: str
    serves: bool = False
    """Whether a call in it is being served: its ring is the rest of its time there."""
    moving: bool = False
    """Whether calls move through it, as on a network."""
    workers: int = 0
    """Each call in it keeps one of so many threads; 0 where it keeps none."""


@dataclass(frozen=True)
class Scene:
    """One run in the replay: its rooms, and when each call entered each step of its path."""

    title: str
    run: Run
    rooms: tuple[Room, ...]
    """The client first."""
    path: tuple[int, ...]
    """The room of each step of a call; the way back through the network is the last step. Where
    several servers answer, their rooms follow each other from the room of the first one on."""
    server: npt.NDArray[np.uint8]
    """The server of each call, from 0: so many rooms further it is in `spread`."""
    spread: int | None
    """The step at which a call is in the room of its server; None for one server."""
    edges: npt.NDArray[np.float32]
    """Shape (calls, steps + 1), seconds from the start of the run: the times at which a call enters
    each step, and its end. In the order of sending."""
    records: npt.NDArray[np.void]
    """The records of these calls."""
    call: npt.NDArray[np.uint32]
    """The call of each dot: the copies of a hedged call are several dots of one call."""
    copy: npt.NDArray[np.uint8]
    """How many copies of its call were sent before it."""
    attempts: npt.NDArray[np.uint8] | None
    """How many attempts of each call the server noted; step 1 is the first one, step 3 the second.
    None where no attempts are known."""
    arrivals_s: npt.NDArray[np.float64] | None
    """When the attempts of the run arrived at the server."""
    limit: int | None
    predicted: tuple[str, float] | None
    """A name and the throughput in operations/s, for the line in X(t)."""
    asked: tuple[str, float] | None
    """The question that asks for this throughput, and operations/s for 1 of its unit: a page puts
    its reader's number there."""
    note: str

    def counts(self, at_s: float) -> dict[str, int]:
        """Return the number of calls in each room at a time, as the picture shows it."""
        at = np.float64(at_s)
        open_now = (self.edges[:, 0] <= at) & (self.edges[:, -1] > at)
        step = (self.edges[open_now] <= at).sum(axis=1) - 1
        room = np.asarray(self.path)[step]
        if self.spread is not None:
            room = room + np.where(step == self.spread, self.server[open_now], 0)
        return {
            each.label: int((room == number).sum())
            for number, each in enumerate(self.rooms)
            if number
        }

    @property
    def span_s(self) -> tuple[float, float]:
        """The first sending and the last end of the calls that are shown."""
        if not len(self.edges):
            return 0.0, 0.0
        return float(self.edges[0, 0]), float(self.edges[:, -1].max())


@dataclass(frozen=True)
class Replay(rendering.Shown):
    """The replay of one run, or of several side by side with one playhead."""

    scenes: tuple[Scene, ...]
    start_s: float

    def __repr__(self) -> str:
        return "\n".join(map(self._in_words, self.scenes))

    def _in_words(self, scene: Scene) -> str:
        from_s, until_s = scene.span_s
        lines = [f"{scene.title}: a replay of {len(scene.edges):,} calls. {scene.note}"]
        for share in (0.25, 0.5, 0.75):
            at_s = from_s + share * (until_s - from_s)
            counts = ", ".join(f"{name} {count}" for name, count in scene.counts(at_s).items())
            lines.append(f"  at {at_s:.2f} s: {counts}")
        return "\n".join(lines)

    @cached_property
    def html(self) -> str:
        """The picture as HTML with its script and data; in words where no script runs."""
        script = resources.files(__package__).joinpath("replay.js").read_text("utf-8")
        return rendering.scripted(script, "showReplay", repr(self), self.panels(), kind="replay")

    def panels(self) -> list[dict[str, Any]]:
        """Return what `showReplay` of `replay.js` draws, one for each run."""
        return [self._panel(scene) for scene in self.scenes]

    def _forms(self) -> Mapping[str, Any]:
        return {"text/plain": repr(self), "text/html": self.html}

    def _panel(self, scene: Scene) -> dict[str, Any]:
        run, records = scene.run, scene.records
        bins = np.linspace(0.0, run.window_s, BINS + 1)
        answered = _per_s(run.records["done_s"], bins, run.records["ok_operations"])
        in_flight = in_flight_between(*_spans(run), bins)
        deadline_s = float(run.settings.get("deadline_s") or math.inf)
        from_s, until_s = scene.span_s
        busiest = _bottleneck(scene)
        return {
            "title": scene.title,
            "alt": self._in_words(scene),
            "note": scene.note,
            "rooms": [
                {**room._asdict(), "bottleneck": number == busiest}
                for number, room in enumerate(scene.rooms)
            ],
            "path": list(scene.path),
            "steps": _step_names(scene),
            "edges": _packed(scene.edges, "<f4"),
            "count": len(scene.edges),
            "kind": _packed(records["kind"], "u1"),
            "status": _packed(records["status"], "u1"),
            "operations": _packed(records["operations"], "<u2"),
            "server": _packed(scene.server, "u1"),
            "spread": scene.spread,
            "call": _packed(scene.call, "<u4"),
            "copy": _packed(scene.copy, "u1"),
            "copies": bool(scene.copy.any()),
            "attempts": None if scene.attempts is None else _packed(scene.attempts, "u1"),
            "arrivals": None if scene.arrivals_s is None else _per_s(scene.arrivals_s, bins),
            "kinds": list(run.kinds),
            "occurs": np.isin(np.arange(len(run.kinds)), records["kind"]).tolist(),
            "statuses": list(STATUSES),
            "failed": [code != OK for code in range(len(STATUSES))],
            "failures": bool((records["status"] != OK).any()),
            "limit": scene.limit,
            "predicted": scene.predicted,
            "asked": scene.asked,
            "deadline_s": deadline_s if deadline_s < 2 * max(until_s - from_s, 1.0) else None,
            "throughput": answered,
            "unit": "operations/s" if (run.records["operations"] > 1).any() else "calls/s",
            "in_flight": np.round(in_flight, 3).tolist(),
            "from_s": from_s,
            "until_s": until_s,
            "end_s": run.window_s,
            "start_s": min(max(self.start_s, from_s), until_s),
        }


def _per_s(
    at_s: npt.NDArray[np.float64],
    bins: npt.NDArray[np.float64],
    weights: npt.NDArray[Any] | None = None,
) -> list[float]:
    """Return how much of this happens per second in each bin, as a running mean."""
    totals, _ = np.histogram(at_s, bins, weights=weights)
    smooth = max(1, BINS // 40)
    per_s = np.convolve(totals, np.ones(smooth) / smooth, mode="same") / (bins[1] - bins[0])
    return [float(value) for value in np.round(per_s, 3)]


def _spans(run: Run) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return when each call was sent first, and when the last of its copies ended."""
    sent_s, done_s = run.records["sent_s"], run.records["done_s"]
    call, _ = _copies(run, run.records)
    first_s, last_s = np.full(call.max(initial=0) + 1, np.inf), np.zeros(call.max(initial=0) + 1)
    np.minimum.at(first_s, call, sent_s)
    np.maximum.at(last_s, call, done_s)
    return first_s, last_s


def _copies(
    run: Run, records: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the call of each record, and how many copies of the call stand before it.

    Copies of a hedged call are due together. In any other run each record is a call of its own.
    """
    if not run.settings.get("hedged"):
        return np.arange(len(records)), np.zeros(len(records), int)
    _, call = np.unique(records["due_s"], return_inverse=True)
    order = np.argsort(call, kind="stable")
    sorted_call = call[order]
    began = np.flatnonzero(np.diff(sorted_call, prepend=-1))
    copy = np.empty(len(call), int)
    copy[order] = np.arange(len(call)) - np.repeat(began, np.diff(began, append=len(call)))
    return call, copy


def replay(
    runs: Run | Mapping[str, Run],
    *,
    predicted: float | str | Sequence[float | str | None] | None = None,
    from_s: float = 0.0,
    start_s: float | None = None,
) -> Replay:
    """Show the calls of a run as dots that move through its stations; return the replay.

    Several runs, by name, are shown with one playhead. `predicted` is the throughput in calls/s
    that was predicted, one for each run; the name of a question stands for the learner's number.
    Of a run with more than `MOST_CALLS` calls, the first ones
    from `from_s` on are shown, and the picture says so. `start_s` is where the playhead stands
    first.

    Raises ValueError if a run has no calls from `from_s` on, or `predicted` has another length.
    """
    animation = replay_of(runs, predicted=predicted, from_s=from_s, start_s=start_s)
    animation._show()
    return animation


def replay_of(
    runs: Run | Mapping[str, Run],
    *,
    predicted: float | str | Sequence[float | str | None] | None = None,
    from_s: float = 0.0,
    start_s: float | None = None,
) -> Replay:
    """Return what `replay` shows; it has the same arguments."""
    if not isinstance(runs, Run | Mapping):
        raise TypeError(f"replay shows a run, or several by their names, got {runs!r}")
    named = {runs.strategy: runs} if isinstance(runs, Run) else dict(runs)
    several = isinstance(predicted, Sequence) and not isinstance(predicted, str)
    values: list[Any] = list(predicted) if several else [predicted] * len(named)  # type: ignore[arg-type]
    if len(values) != len(named):
        raise ValueError(
            f"predicted must have {len(named)} values, one for each run, got {len(values)}"
        )
    scenes = tuple(
        _scene(title, run, value, from_s)
        for (title, run), value in zip(named.items(), values, strict=True)
    )
    middle_s = max(sum(scene.span_s) / 2 for scene in scenes)
    return Replay(scenes, middle_s if start_s is None else start_s)


def _scene(title: str, run: Run, predicted: float | str | None, from_s: float) -> Scene:
    in_order = run.records[np.argsort(run.records["sent_s"], kind="stable")]
    shown = np.flatnonzero(in_order["done_s"] >= from_s)
    if not len(shown):
        raise ValueError(f"the run {title!r} has no calls from {from_s:g} s on")
    left_out = len(shown) > MOST_CALLS
    shown = shown[:MOST_CALLS]
    records = in_order[shown]
    noted = attempts_of(run)
    if noted is None:
        rooms, path, edges = _by_station(run, records)
    else:
        rooms, path, edges = _by_attempt(noted, shown, records)
    call, copy = _copies(run, records)
    server, spread = np.zeros(len(records), "u1"), None
    servers = len(run.server.identity.split(","))
    if servers > 1 and len(path) == 1 and records["connection"].max() < servers:
        # one connection to each server, and no times of its stations
        rooms = (rooms[0], *(Room(f"server {n}", "here") for n in range(servers)))
        server, spread = records["connection"].astype("u1"), 0
    notes = []
    if left_out:
        last_s = float(records["sent_s"].max())
        notes.append(
            f"The first {MOST_CALLS:,} of {len(in_order):,} calls, sent until {last_s:.2f} s."
        )
    counted = run.server.answered
    if noted is not None:
        notes.append(
            f"The server noted {noted.counts.sum():,} attempts of {run.issued:,} calls. A call has"
            " a red mark for each attempt that has failed. Between two attempts it pauses or is on"
            " its way: the client's gRPC does not say when it sends an attempt. The two clocks"
            f" agree to {numbers.seconds(noted.error_s)}."
        )
    elif counted > 1.05 * run.issued_operations:
        notes.append(
            f"The server counted {counted:,} attempts of {run.issued_operations:,} calls: all"
            " attempts of a call are one dot."
        )
    if copy.any():
        notes.append(
            "A line joins the copies of one call, and a later copy is a ring. With the first reply"
            " the client cancels the other copy. Whether a server still works on it is not known."
        )
    if run.strategy == "pipelined":
        notes.append("Each dot is a message of a stream.")
    if rooms[-1].label == "back end":
        notes.append(
            "This run has no times of the server's stations: a pool takes calls in their order, so"
            " it is computed when each call got its thread."
        )
    elif noted is None and len(path) > 1:
        notes.append(
            "The server reports its own stations. The two ways through the network are a guess:"
            " half of the rest each. So for an instant a lock may seem to have two calls, or none."
        )
    elif noted is None:
        notes.append("This run has no times of the server's stations.")
    if any(room.label == UNKNOWN for room in rooms):
        notes.append(
            "Of calls that ended without the server's times it is not known where they were."
        )
    limit = run.in_flight or None
    line = _line(predicted, run)
    note = " ".join(notes)
    return Scene(
        title,
        run,
        rooms,
        path,
        server,
        spread,
        edges,
        records,
        call.astype("u4"),
        copy.astype("u1"),
        None if noted is None else noted.counts[shown].astype("u1"),
        None if noted is None else noted.arrived_s[~np.isnan(noted.arrived_s)],
        limit,
        line,
        _asked(predicted, run),
        note,
    )


def _line(predicted: float | str | None, run: Run) -> tuple[str, float] | None:
    if isinstance(predicted, str):
        yours = live.yours([progress.ask(predicted)], run)
        return None if yours is None else ("you said", yours)
    return None if predicted is None else ("predicted", float(predicted))


def _asked(predicted: float | str | None, run: Run) -> tuple[str, float] | None:
    if (
        not isinstance(predicted, str)
        or (unit := progress.ask(predicted).unit) not in questions.RATES
    ):
        return None
    return predicted, questions.operations_in_a_call(run) if unit == questions.CALLS else 1.0


def _by_station(
    run: Run, records: npt.NDArray[np.void]
) -> tuple[tuple[Room, ...], tuple[int, ...], npt.NDArray[np.float32]]:
    """Return the rooms, the path through them, and when each call enters each step."""
    sent_s, done_s = records["sent_s"], records["done_s"]
    client = Room("client", "in flight")
    stations = ("pool_s", "lock_s", "disk_s", "rest_s")
    settings = run.server.known_settings
    known = np.logical_and.reduce([~np.isnan(records[name]) for name in stations])
    if not known.any():
        if settings is not None and settings.back_end:
            return _in_front(client, settings, records)
        edges = np.stack([sent_s, done_s], axis=1)
        away = Room("network and server", "here", moving=True)
        return (client, away), (1,), edges.astype(np.float32)
    use_asyncio = settings is not None and settings.use_asyncio
    threads = settings.threads if settings is not None else 0
    if use_asyncio:
        pool = Room("event loop", "waiting")
    else:
        kept = f"wait, {numbers.count(threads, 'thread')}" if threads else "waiting"
        pool = Room("thread pool", kept)
    disk = Room("disk", "served", serves=True)
    if settings is not None and settings.back_end:
        workers = 0 if use_asyncio else threads
        kept = f"of {workers} threads" if workers else "tasks"
        disk = Room("back end", kept, serves=True, workers=workers)
    rooms = {
        "pool_s": pool,
        "lock_s": Room("lock", "waiting"),
        "disk_s": disk,
        "rest_s": Room("server code", "here"),
    }
    held = settings is not None and settings.locking in HELD
    order: tuple[str, ...] = stations if held else ("pool_s", "disk_s", "lock_s", "rest_s")
    if settings is not None and settings.back_end:  # in front of another one, it has no lock
        order = ("pool_s", "disk_s", "rest_s")
    times = [np.where(known, records[name], 0.0) for name in order]
    way_s = np.where(known, np.maximum(0.0, (done_s - sent_s - sum(times)) / 2), 0.0)
    if not known.all():  # such as calls that ended by their deadline, or were refused
        times.append(np.where(known, 0.0, done_s - sent_s))
        rooms[UNKNOWN] = Room(UNKNOWN, "somewhere")
        order = (*order, UNKNOWN)
    edges = sent_s[:, None] + np.cumsum(np.stack([0 * way_s, way_s, *times], axis=1), axis=1)
    edges = np.column_stack([np.minimum(edges, done_s[:, None]), done_s])
    network = Room("network", "on the way", moving=True)
    return (
        (client, network, *(rooms[name] for name in order)),
        (1, *range(2, 2 + len(order)), 1),
        edges.astype(np.float32),
    )


def _by_attempt(
    noted: Attempts, shown: npt.NDArray[np.int64], records: npt.NDArray[np.void]
) -> tuple[tuple[Room, ...], tuple[int, ...], npt.NDArray[np.float32]]:
    """Return the way of calls through their attempts: to the server, and again after a pause."""
    sent_s, done_s, most = records["sent_s"], records["done_s"], noted.arrived_s.shape[1]
    columns = [sent_s]
    for number in range(most):
        arrived_s, ended_s = noted.arrived_s[shown, number], noted.ended_s[shown, number]
        # A call that was not sent again pauses no longer: it is on its way back, or given up.
        given_up = np.isin(records["status"], GIVEN_UP)
        after_s = np.where(given_up, done_s, columns[-1]) if number else done_s
        columns += [
            np.where(np.isnan(arrived_s), after_s, arrived_s),
            np.where(np.isnan(arrived_s), after_s, ended_s),
        ]
    edges = np.minimum(np.stack([*columns, done_s], axis=1), done_s[:, None])
    edges = np.maximum.accumulate(np.maximum(edges, sent_s[:, None]), axis=1)
    rooms = (
        Room("client", "in flight"),
        Room("network", "on the way", moving=True),
        Room("server", "attempts"),
        Room(BETWEEN, "pause"),
    )
    return rooms, (1, 2, *(3, 2) * (most - 1), 1), edges.astype(np.float32)


def _in_front(
    client: Room, settings: ServerSettings, records: npt.NDArray[np.void]
) -> tuple[tuple[Room, ...], tuple[int, ...], npt.NDArray[np.float32]]:
    """Return the stations of a server in front of another one, which reports no times.

    A pool of c threads takes calls in their order: call i begins when the (i - c)-th one has left.
    """
    sent_s, done_s = records["sent_s"], records["done_s"]
    if settings.use_asyncio:
        edges = np.stack([sent_s, done_s], axis=1)
        return (client, Room("back end", "tasks wait", serves=True)), (1,), edges.astype(np.float32)
    threads = settings.threads
    begun_s = sent_s.copy()
    begun_s[threads:] = np.maximum(sent_s[threads:], np.sort(done_s)[: len(done_s) - threads])
    edges = np.stack([sent_s, np.minimum(begun_s, done_s), done_s], axis=1)
    rooms = (
        client,
        Room("thread pool", f"wait, {numbers.count(threads, 'thread')}"),
        Room("back end", f"of {threads} threads", serves=True, workers=threads),
    )
    return rooms, (1, 2), edges.astype(np.float32)


def _bottleneck(scene: Scene) -> int | None:
    """Return the room where calls wait longest, if that is more than half of their time."""
    if len(scene.path) == 1:
        return None
    spent = np.diff(scene.edges, axis=1).sum(axis=0)
    in_room = np.bincount(scene.path, weights=spent, minlength=len(scene.rooms))
    room = int(in_room.argmax())
    where = scene.rooms[room]
    waits = room > 1 and not where.serves and where.label not in (UNKNOWN, BETWEEN)
    return room if waits and in_room[room] > in_room.sum() / 2 else None


def _step_names(scene: Scene) -> list[str]:
    names = [scene.rooms[room].label for room in scene.path]
    if scene.spread is not None:
        names = ["network and server"]
    if names[0] == "network":
        names[0], names[-1] = "to the server", "and back"
    return names


def _packed(values: npt.NDArray[Any], dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")
