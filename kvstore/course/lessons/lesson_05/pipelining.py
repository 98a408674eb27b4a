"""A window of entries in flight to a follower, and the order of replies on a stream.

This is the core of Raft's AppendEntries (D. Ongaro and J. Ousterhout, "In Search of an
Understandable Consensus Algorithm", 2014; pipelining is in section 10.2.1 of Ongaro's
dissertation), with one follower and no elections. It has four ideas:

* The id of a request is the index of its entry, so a reply names the entry that it acknowledges.
* Replies may come in any order. The commit index moves only to the next gap.
* When the stream breaks, entries without a reply are *unknown*: the follower stored them or not.
* The leader sends unknown entries again. That is safe, because storing is idempotent:
  ALREADY_EXISTS counts as acknowledged.

Raft also numbers terms, and its follower refuses a gap. Here only one leader writes under a log's
name, so an entry that exists already is the same entry.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import grpc
import pandas as pd

from kvstore.client.channel import OPTIONS, Target, connected, target_of
from kvstore.client.workload import Workload
from kvstore.measure import Run
from kvstore.protocol import ALREADY_EXISTS, CREATE, OK, RETRIEVE, STATUSES, event_loop_factory
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


class EntryRefused(RuntimeError):
    """The follower answered an entry with a status that a retry cannot change."""


class FollowerLost(ConnectionError):
    """The log was not copied before the deadline; entries beyond the commit index are unknown."""


@dataclass(frozen=True)
class Log:
    """Entries with the indices 1, 2, 3, ...; an entry has one piece or several."""

    entries: Sequence[Sequence[bytes]]
    name: bytes = field(default_factory=lambda: secrets.token_hex(4).encode())
    """A prefix of the keys, so that several logs can be on the same follower."""

    def __len__(self) -> int:
        return len(self.entries)

    def keys(self, index: int) -> list[bytes]:
        """Return the keys of the pieces of an entry."""
        return [b"%s/%d/%d" % (self.name, index, piece) for piece in range(len(self[index]))]

    def __getitem__(self, index: int) -> Sequence[bytes]:
        return self.entries[index - 1]

    def append(self, index: int) -> pb.PipelineRequest:
        """Return the request that stores an entry: one Create for each piece, in order."""
        pieces = self[index]
        return pb.PipelineRequest(
            id=index, kinds=bytes([CREATE]) * len(pieces), keys=self.keys(index), values=pieces
        )


def a_log(count: int, *, long_every: int = 0, pieces: int = 4) -> Log:
    """Return a log of `count` small entries, of which each `long_every`-th has `pieces` pieces."""
    return Log(
        [
            [b"entry %d" % index] * (pieces if long_every and index % long_every == 0 else 1)
            for index in range(1, count + 1)
        ]
    )


class CommitIndex:
    """The highest index up to which every entry is acknowledged."""

    def __init__(self) -> None:
        self.value = 0
        self._early: set[int] = set()

    def acknowledge(self, index: int) -> int:
        """Record one acknowledgement and return the new commit index."""
        if index > self.value:  # an entry that was sent twice may be acknowledged twice
            self._early.add(index)
        while self.value + 1 in self._early:
            self.value += 1
            self._early.remove(self.value)
        return self.value

    def __contains__(self, index: object) -> bool:
        """Return whether this entry is acknowledged, committed or not."""
        return isinstance(index, int) and (index <= self.value or index in self._early)


@dataclass(frozen=True, repr=False)
class Replication:
    """The record of one copy of a log."""

    window: int
    entries: int
    acks: pd.DataFrame = field(compare=False)
    """One row for each acknowledgement in its order: index, stream (number, from 1), sent_s,
    acked_s, status ("OK" or "ALREADY_EXISTS") and the commit index after it."""
    sent: int
    """Requests sent, retries included."""
    unknown: int
    """Entries that were in flight when a stream broke: stored or not."""
    started_at: str
    """Local time of the start, ISO 8601, to the millisecond."""

    @property
    def duration_s(self) -> float:
        """Return the seconds until the last entry was committed."""
        return float(self.acks["acked_s"].max())

    @property
    def commit_index(self) -> int:
        """Return the commit index at the end."""
        return int(self.acks["commit_index"].iloc[-1])

    def __repr__(self) -> str:
        again = f", {self.sent - self.entries} sent again" if self.sent > self.entries else ""
        return (
            f"<Replication window {self.window}: {self.commit_index:,} of {self.entries:,} entries"
            f" committed in {self.duration_s:.3f} s{again}>"
        )


def replicate(
    log: Log,
    follower: object,
    *,
    window: int = 1,
    cut_after: int | None = None,
    deadline_s: float = 30.0,
) -> Replication:
    """Copy the log to the follower with at most `window` entries in flight; 1 is stop-and-wait.

    `cut_after` breaks the stream once, after so many acknowledgements, as a fault would.

    Raises:
        ValueError: the window or the log is empty.
        EntryRefused: the follower refuses an entry.
        FollowerLost: the log was not copied within `deadline_s`.
    """
    if window < 1 or not len(log):
        raise ValueError(
            f"the window and the log must have 1 or more entries, got {window} and {len(log)}"
        )
    target = target_of(follower)
    leader = _Leader(log, window, cut_after)
    with connected(target), ThreadPoolExecutor(1) as thread:  # the notebook runs its own loop here
        copied = thread.submit(_run, leader, target, deadline_s)
        try:
            copied.result()
        except BaseException:  # Ctrl-C included: the thread ends before the error is raised
            leader.stop()
            raise
    return leader.report()


def read_back(log: Log, follower: object) -> list[list[bytes]]:
    """Return the follower's copy of the log, entry by entry, in one request of many reads."""
    keys = [log.keys(index) for index in range(1, len(log) + 1)]
    flat = [key for entry in keys for key in entry]
    request = pb.PipelineRequest(id=1, kinds=bytes([RETRIEVE]) * len(flat), keys=flat)
    with connected(target_of(follower)) as (channel, _):
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        (reply,) = stub.Pipeline(iter([request]), timeout=60.0)
    found = iter(reply.values)
    held = {
        key: next(found) if status == OK else b""
        for key, status in zip(flat, reply.statuses, strict=True)
    }
    return [[held[key] for key in entry] for entry in keys]


class _Leader:
    """Sends the entries that are not acknowledged, stream after stream, until all are."""

    def __init__(self, log: Log, window: int, cut_after: int | None) -> None:
        self.log = log
        self.window = window
        self.committed = CommitIndex()
        self._cut_after = cut_after
        self._origin_s = 0.0
        self._started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._sent_s: dict[int, float] = {}
        self._acks: list[tuple[int, int, float, float, str, int]] = []
        self._sent = self._unknown = self._streams = 0
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    async def copy(self, target: Target, deadline_s: float) -> None:
        """Open one stream after the other until all entries are acknowledged."""
        task = asyncio.current_task()
        assert task is not None
        self._running = (asyncio.get_running_loop(), task)
        async with (
            asyncio.timeout(deadline_s),
            grpc.aio.insecure_channel(target.address, options=OPTIONS) as channel,
        ):
            await channel.channel_ready()
            self._origin_s = time.perf_counter()
            stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
            while self.committed.value < len(self.log):
                await self._one_stream(stub)
                self._unknown += len(self._sent_s)
                self._sent_s.clear()

    async def _one_stream(self, stub: kvstore_pb2_grpc.KeyValueServiceStub) -> None:
        """Send and receive at the same time, until all is acknowledged or the stream breaks."""
        self._streams += 1
        free = asyncio.Semaphore(self.window)
        call = stub.Pipeline(wait_for_ready=True)
        sender = asyncio.create_task(self._send(call, free))
        try:
            async for reply in call:
                self._acknowledge(reply)
                free.release()
                if len(self._acks) == self._cut_after:
                    break
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.02)  # the stream broke; the next one waits for the follower
        finally:
            call.cancel()
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    async def _send(self, call: "grpc.aio.StreamStreamCall", free: asyncio.Semaphore) -> None:
        for index in range(1, len(self.log) + 1):
            if index not in self.committed:
                await free.acquire()
                self._sent_s[index] = time.perf_counter() - self._origin_s
                self._sent += 1
                await call.write(self.log.append(index))
        await call.done_writing()

    def _acknowledge(self, reply: pb.PipelineResponse) -> None:
        """Record that an entry is stored: each of its pieces is new there or existed already."""
        status = max(reply.statuses)
        if not set(reply.statuses) <= {OK, ALREADY_EXISTS}:
            raise EntryRefused(
                f"the follower answered entry {reply.id} with {STATUSES[status]}: {reply.detail}"
            )
        acked_s = time.perf_counter() - self._origin_s
        commit_index = self.committed.acknowledge(reply.id)
        self._acks.append(
            (reply.id, self._streams, self._sent_s.pop(reply.id), acked_s, STATUSES[status],
             commit_index)
        )  # fmt: skip

    def stop(self) -> None:
        """End the copying from another thread."""
        if self._running is not None:
            loop, task = self._running
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # the loop has ended already

    def report(self) -> Replication:
        """Return the record of the copy."""
        names = ["index", "stream", "sent_s", "acked_s", "status", "commit_index"]
        return Replication(
            self.window,
            len(self.log),
            pd.DataFrame(self._acks, columns=names),
            self._sent,
            self._unknown,
            self._started_at,
        )


def _run(leader: _Leader, target: Target, deadline_s: float) -> None:
    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(leader.copy(target, deadline_s))
    except TimeoutError:
        raise FollowerLost(
            f"{leader.committed.value} of {len(leader.log)} entries were committed within"
            f" {deadline_s:g} s: is the follower at {target.address} running?"
        ) from None


# ---- reply order --------------------------------------------------------------------------------
# Replies in the order in which they finish, beside a protocol that replies in order.


SLOW_FIRST: Final = Workload(
    mix={"retrieve": 15, "update": 1},
    seed=137,  # the first seed whose only update is the first operation
    preload=8,
    key_bytes_mean=16,
    value_bytes_mean=64,
    sizes="fixed",
)
"""One write, then only reads, for 48 operations: a slow request that heads the line."""

SLOW_FIRST_CALLS: Final = 48


def in_order_done_s(calls: pd.DataFrame) -> pd.Series:
    """Return the time of each reply if the server replied in the order of requests.

    `calls` are in the order of sending. A reply cannot leave before all earlier ones, so its time
    is the running maximum of the times at which they were ready.
    """
    return calls["done_s"].cummax()


def both_orders(run: Run, *, most: int = 60) -> pd.DataFrame:
    """Return the times of the first `most` calls as measured, and with replies in order.

    Both use the same trace, which favours replies in order: with a window, that protocol would
    also *send* later, because its replies come later.
    """
    calls = run.calls.head(most)
    in_order_s = in_order_done_s(calls)
    return pd.DataFrame(
        {
            "operation": calls["operation"].astype(str).to_numpy(),
            "sent (ms)": 1e3 * calls["sent_s"].to_numpy(),
            "done as finished (ms)": 1e3 * calls["done_s"].to_numpy(),
            "done in order (ms)": 1e3 * in_order_s.to_numpy(),
            "held back (ms)": 1e3 * (in_order_s - calls["done_s"]).to_numpy(),
        },
        index=pd.RangeIndex(1, len(calls) + 1, name="sent as number"),
    ).round(2)


def overtaken(run: Run) -> int:
    """Return the number of calls that were answered after a call that was sent later."""
    done_s = run.calls["done_s"]
    earliest_later = done_s[::-1].cummin()[::-1].shift(-1)
    return int((earliest_later < done_s).sum())


def answered_as(run: Run, number: int) -> int:
    """Return the position among the replies of the call that was sent as `number` (from 1)."""
    return int(run.calls["done_s"].rank(method="first").iloc[number - 1])
