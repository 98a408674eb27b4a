"""Monitor a run from its own process, and ask its servers for their reports.

A run that reaches its ceiling or loses its server ends in order and keeps its records.
"""

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import grpc
import numpy as np

from kvstore.client.channel import Target, connected, local_pids, server_status
from kvstore.client.client import Client
from kvstore.client.errors import ServerNotReached, StrategyStuck
from kvstore.client.plan import RunOptions
from kvstore.client.schedule import Schedule
from kvstore.measure.recorder import Records, Sample, Sampler
from kvstore.measure.run import UNANSWERED, Outcome
from kvstore.measure.server_report import ServerReport
from kvstore.protocol import CANCELLED, UNAVAILABLE
from kvstore.subprocesses import shielded
from kvstore.v1 import server_status_pb2 as pb

DRAIN_S = 0.5
"""Seconds after Ctrl-C in which calls in flight may finish before they are cancelled."""
DYING_S = 0.5
"""Seconds between the last reply of a server that ends and the end of its process."""
SETTLE_S = 10.0
"""Seconds to wait for the last records after all calls were cancelled."""
STUCK_S = 5.0
"""Seconds that a strategy has to return when no operation is left and every call has ended."""

OnSample = Callable[[Sample], object]
"""A function that is called with each sample of a run, in the thread that started the run."""


class Gate:
    """Where a run waits for its start, and where another thread can stop it.

    No signal is used to stop a run: in the middle of a call, gRPC may then wait for ever when its
    channel is closed, and at the end of a run its records may be lost.
    """

    def __init__(self) -> None:
        self.closed = False
        """Whether the run has to stop."""
        self.inside = False
        """Whether a run has begun, whose monitor checks `closed`."""

    def stop(self) -> None:
        """Close the gate: the run sends no further call, and ends in order."""
        self.closed = True

    def wait(self) -> float:
        """Wait until the run may send its first call; return that time of `perf_counter`."""
        return time.perf_counter()


class Monitor:
    """Takes samples while a strategy runs, checks the memory, and ends the run in order."""

    def __init__(
        self,
        client: Client,
        sampler: Sampler,
        server: Target | str,
        options: RunOptions,
        gate: Gate | None = None,
    ) -> None:
        """With `options.keep_going`, a run does not end when its server is away.

        Callers then wait before their next call.
        """
        self.client = client
        self.sampler = sampler
        self.reachability = Reachability(client, server)
        self.outcome = Outcome.COMPLETE
        self.error: BaseException | None = None
        self.unresponsive: dict[str, float] = {}
        """Servers that stopped answering: the time of the last reply in seconds, by address."""
        self.elapsed_s = 0.0
        self._sending_s = options.sending_s
        self._cut_s = math.inf if options.drain_s is None else self._sending_s + options.drain_s
        self._cut = False
        """Whether the calls that were open at the end are cut off."""
        self._stuck = False
        """Whether the strategy waits for ever, with no call open and none left to send."""
        self._keep_going = options.keep_going
        self._ceiling_bytes = options.memory_ceiling_bytes
        self._interval_s = options.sample_interval_s
        self._gate = gate
        self._guards = gate is not None or not math.isinf(self._ceiling_bytes)
        """Whether `guard` has something to check."""
        self._began = gate is None
        """Whether the clock of the run has started: several generators start it together."""

    def admit(self) -> bool:
        """Return `guard()`, for the schedule; the first call waits at the gate, if there is one.

        The connections are ready by then; those that threads would open with the first call, too.
        """
        if not self._began and self._gate is not None:
            self.client.open()
            self.client.recorder.start_clock(self._gate.wait())
            self.sampler.start_over()
            self._began = True
        return self.guard()

    def guard(self) -> bool:
        """Return whether to stop sending; called often, because memory can grow fast."""
        if self._guards and self.outcome is Outcome.COMPLETE:
            self._check_limits()
        return self.outcome in (Outcome.MEMORY_CEILING, Outcome.INTERRUPTED)

    def _check_limits(self) -> None:
        if self._gate is not None and self._gate.closed:
            self.outcome = Outcome.INTERRUPTED
        elif (
            not math.isinf(self._ceiling_bytes)
            and self.sampler.largest_rss_bytes() >= self._ceiling_bytes
        ):
            self.outcome = Outcome.MEMORY_CEILING
            self._sample(None)  # the memory is at its highest now

    def run(
        self, work: Callable[[], object], schedule: Schedule, on_sample: OnSample | None
    ) -> None:
        """Run the strategy in a thread; return when it has ended, with any outcome."""
        # An event, not `Thread.join`: in CPython 3.11, a join that Ctrl-C interrupts marks the
        # thread as finished, although its calls are still in flight.
        ended = threading.Event()

        def run_to_its_end() -> None:
            try:
                work()
            except BaseException as error:  # raised again by the thread that called `run`
                self.error = error
            finally:
                ended.set()

        if self._gate is not None:
            self._gate.inside = True
        thread = threading.Thread(target=run_to_its_end, name="strategy", daemon=True)
        try:
            with shielded():  # an interrupt in the start would leave a run without a monitor
                thread.start()
            self._sample_until_end(ended, schedule, on_sample)
        except KeyboardInterrupt:
            self.outcome = Outcome.INTERRUPTED
        except BaseException:  # on_sample failed: end the calls before the error is raised
            schedule.stop()
            self._cancel(ended)
            raise
        schedule.stop()
        self._end(ended)
        self.elapsed_s = self.client.recorder.now_s()
        self._sample(None)
        self._judge()

    def _sample_until_end(
        self, ended: threading.Event, schedule: Schedule, on_sample: OnSample | None
    ) -> None:
        # Memory is checked more often than samples are shown: an unlimited client can take
        # hundreds of megabytes in a second.
        often = self._keep_going or not math.isinf(self._ceiling_bytes)
        step_s = min(self._interval_s, 0.02) if often else self._interval_s
        shown_s, idle_since_s = -math.inf, 0.0
        while not ended.is_set() and self.outcome is Outcome.COMPLETE:
            # A connection may take longer than the run, whose time begins when it is ready.
            connected = self.client.recorder.is_connected
            now_s = self.client.recorder.now_s() if connected else 0.0
            over = self._began and (schedule.stopped or now_s >= self._sending_s)
            if not over or self.client.recorder.in_flight:
                idle_since_s = now_s
            elif now_s - idle_since_s >= STUCK_S:
                self._stuck = True
                break
            if self._began and now_s - shown_s >= self._interval_s:
                shown_s = now_s
                self._sample(on_sample)
            self.guard()
            if self._keep_going:
                self.reachability.hold(schedule)
            elif self.sampler.server_gone() or self.reachability.lost():
                self.outcome = Outcome.SERVER_GONE
            if self._cut_s < math.inf and now_s >= self._sending_s:
                schedule.stop()
                self._cut = now_s >= self._cut_s
            if self._cut:
                break
            if self.outcome is Outcome.COMPLETE:
                next_s = self._sending_s if now_s < self._sending_s else self._cut_s
                ended.wait(max(0.001, min(step_s, next_s - now_s)))
        schedule.stop()
        if ended.is_set():
            self._sample(on_sample)

    def _sample(self, on_sample: OnSample | None) -> None:
        answered = len(self.client.recorder)
        sample = self.sampler.look(
            self.client.recorder.now_s(), self.client.recorder.issued, answered
        )
        if on_sample is not None:
            on_sample(sample)

    def _end(self, ended: threading.Event) -> None:
        """Let calls in flight finish after Ctrl-C; cancel them at a ceiling or a dead server."""
        if self.outcome is Outcome.INTERRUPTED:
            end_s = time.perf_counter() + DRAIN_S
            try:
                while self.client.recorder.in_flight and time.perf_counter() < end_s:
                    ended.wait(0.02)
                self._stuck = not self.client.recorder.in_flight and not ended.wait(0.5)
            except KeyboardInterrupt:
                pass  # a second Ctrl-C: do not wait for replies
        if self._stuck:  # no call is open; a coroutine can be cancelled, a thread cannot
            threading.Thread(target=self.client.cancel, daemon=True).start()
            ended.wait(0.5)
            self.error = StrategyStuck(
                f"all {self.client.recorder.issued:,} calls have ended and none is left to send,"
                f" but the strategy did not return within {STUCK_S:g} s: what does it wait for?"
            )
            return
        # A strategy that failed, or returned too early, may leave calls in flight, such as the
        # call of a thread that was between two calls. These calls are cancelled as well.
        if not ended.is_set() or self.client.recorder.in_flight:
            self._cancel(ended)

    def _judge(self) -> None:
        """Set the outcome: the server has gone or stopped answering, or the strategy failed.

        With a server that stopped answering, a stream ends at the deadline of its oldest request,
        and each unary call at its own deadline. Both have the same outcome.
        """
        if self.outcome is not Outcome.COMPLETE or self._cut:
            return
        if self._keep_going and (self.error is None or _disconnected(self.error)):
            return
        trouble = _disconnected(self.error) or self.reachability.unavailable_at_last()
        end_s = time.perf_counter() + (DYING_S if trouble else 0.0)
        while not (gone := self._server_gone(trouble)) and time.perf_counter() < end_s:
            time.sleep(0.01)
        if gone:
            self.outcome = Outcome.SERVER_GONE
        elif (self.error is None or _disconnected(self.error)) and self._stopped_answering():
            # A server may take longer to end than it was given above, such as on a busy machine.
            if self._server_gone(trouble):
                self.outcome, self.unresponsive = Outcome.SERVER_GONE, {}
            else:
                self.outcome = Outcome.SERVER_UNRESPONSIVE
        elif self.error is not None:
            self.outcome = Outcome.FAILED

    def _stopped_answering(self) -> bool:
        self.unresponsive = self.reachability.unresponsive()
        return bool(self.unresponsive)

    def _server_gone(self, trouble: bool) -> bool:
        """Return whether the server has gone: by its process if local, else by its address."""
        if self.sampler.watches_server:
            return self.sampler.server_gone()
        return trouble and bool(self.reachability.silent())

    def _cancel(self, ended: threading.Event) -> None:
        closing = threading.Thread(target=self.client.cancel, daemon=True)
        with suppress(KeyboardInterrupt), shielded():  # the end has begun and takes a limited time
            closing.start()
        end_s = time.perf_counter() + SETTLE_S
        while time.perf_counter() < end_s and not (
            ended.is_set() and not self.client.recorder.in_flight
        ):
            try:
                if ended.wait(0.1):
                    time.sleep(0.01)  # the callbacks of the last calls are still running
            except KeyboardInterrupt:
                pass
        if not ended.is_set():
            raise RuntimeError(
                f"{self.client.recorder.in_flight} calls did not end within {SETTLE_S:g} s of being"
                " cancelled: restart the kernel"
            )


def _disconnected(error: BaseException | None) -> bool:
    """Return whether a strategy failed because its connection failed, in itself or in a task."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(ConnectionError) is not None
    return isinstance(error, ConnectionError)


UNREACHED_S = 1.0
"""Seconds in which calls ended only as UNAVAILABLE before a run checks that the server listens."""
CONNECT_S = 0.5
FIRST_WAIT_S, MOST_WAIT_S = 0.05, 0.5
"""Seconds before the next call to a server that is away: at first, and at most."""
ANSWER_S = 2.0
"""Deadline of the status request to a server whose last calls had no reply, in seconds."""


class Reachability:
    """Checks how calls end, to distinguish a server that refuses calls from one that has gone.

    A call to a server that has gone ends at once, and the strategy sends the next one. Without this
    check, the run would do so for the rest of its time. Of several servers, each is checked by
    itself.
    """

    def __init__(self, client: Client, server: Target | str) -> None:
        self._client = client
        self._seen = 0
        self._wait_s = 0.0
        self._targets = (server if isinstance(server, Target) else Target(server)).shards
        self._addresses = [target.address for target in self._targets]
        self._only_unavailable_since_s = [math.nan] * len(self._addresses)

    def _new(self) -> Records:
        """Return the records since the last look."""
        new = self._client.recorder.since(self._seen)
        self._seen += len(new)
        return new

    def lost(self) -> bool:
        """Return whether calls to a server end only as UNAVAILABLE and its address is closed.

        A server that is overloaded or restarts may refuse calls with this status as well, so its
        address is checked.
        """
        of_each = enumerate(self._by_server(self._new()))
        return any(self._is_lost(number, of_one) for number, of_one in of_each)

    def hold(self, schedule: Schedule) -> None:
        """Let callers wait before their next call while all calls end as UNAVAILABLE.

        The time doubles until a call ends in another way; then it is 0 again.
        """
        if len(new := self._new()):
            away = bool((new["status"] == UNAVAILABLE).all())
            self._wait_s = min(2 * self._wait_s or FIRST_WAIT_S, MOST_WAIT_S) if away else 0.0
            schedule.hold(self._wait_s)

    def _is_lost(self, number: int, new: Records) -> bool:
        since_s = self._only_unavailable_since_s[number]
        others = np.flatnonzero(new["status"] != UNAVAILABLE)
        if len(others):
            since_s = math.nan
            new = new[others[-1] + 1 :]
        if len(new) and math.isnan(since_s):
            since_s = float(new["done_s"][0])
        now_s = self._client.recorder.now_s()
        check = now_s - since_s >= UNREACHED_S
        # If the server listens, check again later.
        self._only_unavailable_since_s[number] = now_s if check else since_s
        return check and not _listens(self._addresses[number])

    def unavailable_at_last(self) -> bool:
        """Return whether the last call of one of the servers ended as UNAVAILABLE."""
        records = self._client.recorder.array()
        return any(
            len(of_one) > 0 and of_one["status"][-1] == UNAVAILABLE
            for of_one in self._by_server(records)
        )

    def silent(self) -> list[str]:
        """Return the addresses that accept no connection now."""
        return [address for address in self._addresses if not _listens(address)]

    def unresponsive(self) -> dict[str, float]:
        """Return the servers that stopped answering: when each replied last, by address.

        Both must hold: the last calls to the server ended without a reply, and it does not answer
        a status request now. A server that is overloaded, or is back, does answer it.
        """
        records = self._client.recorder.array()
        return {
            target.address: last_s
            for target, of_one in zip(self._targets, self._by_server(records), strict=True)
            if (last_s := _last_answer_s(of_one)) is not None and not _answers(target)
        }

    def _by_server(self, records: Records) -> list[Records]:
        """Return the calls to each server: connection i goes to server i modulo their number."""
        count = len(self._addresses)
        if count == 1:
            return [records]
        return [records[records["connection"] % count == number] for number in range(count)]


def _last_answer_s(records: Records) -> float | None:
    """Return when the last reply came, 0 for none; None if no later call ended without a reply."""
    status = records["status"]
    answers = np.flatnonzero(~np.isin(status, (*UNANSWERED, CANCELLED, UNAVAILABLE)))
    after = answers[-1] + 1 if len(answers) else 0
    if not np.isin(status[after:], UNANSWERED).any():
        return None
    return float(records["done_s"][after - 1]) if after else 0.0


def _answers(target: Target) -> bool:
    """Return whether a server answers a status request over a new connection."""
    with target.channel() as channel:
        try:
            server_status(channel, target, ANSWER_S, wait_for_ready=True)
        except ServerNotReached:
            return False
    return True


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
            return True
    except OSError:
        return False


# The servers of a run, and the status that they report before and after it.
#
# A run has one server, or several that each have a shard of the keys; their reports are combined.


class Servers(NamedTuple):
    """The connected servers, whose identities were checked."""

    targets: Sequence[Target]
    channels: Sequence[grpc.Channel]
    before: pb.GetServerStatusResponse
    """Their combined status when they were connected."""
    pids: Sequence[int]
    """Process ids of the servers on this machine."""

    def status(self, timeout_s: float) -> pb.GetServerStatusResponse:
        """Return their combined status now. Raises `ServerNotReached`."""
        return combined(
            [
                server_status(channel, target, timeout_s)
                for channel, target in zip(self.channels, self.targets, strict=True)
            ]
        )


@contextmanager
def connected_servers(target: Target) -> Iterator[Servers]:
    """Yield the servers of the target, with a channel to each.

    Raises `ServerNotReached` and `WrongServer` as `channel.connected` does.
    """
    with ExitStack() as stack:
        answers = [stack.enter_context(connected(each)) for each in target.shards]
        channels, statuses = zip(*answers, strict=True)
        pids = [
            pid
            for status, each in zip(statuses, target.shards, strict=True)
            for pid in local_pids(status, each)
        ]
        yield Servers(target.shards, channels, combined(statuses), pids)


def combined(statuses: Sequence[pb.GetServerStatusResponse]) -> pb.GetServerStatusResponse:
    """Return one status for all servers: counts and CPU time added up, identities joined.

    All servers have the same settings and versions, so those of the first are taken.
    """
    first = statuses[0]
    if len(statuses) == 1:
        return first
    whole = pb.GetServerStatusResponse(
        identity=",".join(status.identity for status in statuses),
        host_name=first.host_name,
        settings_json=first.settings_json,
        versions=first.versions,
        peer=first.peer,
        cpu_user_s=sum(status.cpu_user_s for status in statuses),
        cpu_system_s=sum(status.cpu_system_s for status in statuses),
        loop_cpu_s=sum(status.loop_cpu_s for status in statuses),
    )
    for status in statuses:
        for name, count in status.operations.items():
            whole.operations[name] += count
    return whole


def status_after(servers: Servers, outcome: Outcome) -> pb.GetServerStatusResponse | None:
    """Return the status of the servers after a run; None when one of them does not answer."""
    if outcome in (Outcome.SERVER_GONE, Outcome.SERVER_UNRESPONSIVE, Outcome.MEMORY_CEILING):
        return None
    try:
        return servers.status(2.0)
    except (ServerNotReached, ValueError):  # too busy to answer, or the channel was closed
        return None


def loop_cpu_s(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> float:
    """Return the CPU seconds of the server's event loop between two reports; NaN without a loop."""
    if after is None or not after.loop_cpu_s:
        return math.nan
    return after.loop_cpu_s - before.loop_cpu_s


def server_report(
    before: pb.GetServerStatusResponse, after: pb.GetServerStatusResponse | None
) -> ServerReport:
    """Return the server's identity, settings, versions and the operations it answered.

    A servicer that is not ours reports its disk times and locking as seen so far: so the settings
    are those of the later report.
    """
    facts = json.loads((after or before).settings_json or before.settings_json or "{}")
    report: dict[str, Any] = {
        "identity": before.identity,
        "settings": facts,
        "versions": dict(before.versions),
    }
    if after is not None and after.settings_json:
        report["operations"] = {
            name: count - before.operations.get(name, 0)
            for name, count in after.operations.items()
            if count > before.operations.get(name, 0)
        }
        report["attempts"] = [
            [float(each.call), each.before, round(each.arrived_s, 6), round(each.ended_s, 6)]
            for each in after.attempts[len(before.attempts) :]
        ]
    return ServerReport.of(report)
