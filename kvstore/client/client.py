"""The client of one run, and a measured channel without a run."""

import asyncio
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from typing import Any

import grpc
import psutil

from kvstore.client.channel import Target, target_of
from kvstore.client.connections import Choose, Connections, Opened, aopen_all, open_all, route
from kvstore.client.measured_channel import MeasuredChannel
from kvstore.client.measured_channel_aio import MeasuredAioChannel
from kvstore.client.messages import SERVICE, Operation, PipelineReader
from kvstore.client.plan import RunOptions
from kvstore.client.recording import Recording, RecordingChannel
from kvstore.client.schedule import AnyOperations, Schedule
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodOperations
from kvstore.measure.host import describe_host
from kvstore.measure.recorder import NO_CPU, Cpu, Recorder, sample_rows
from kvstore.measure.run import Outcome, Run
from kvstore.measure.server_report import ServerReport
from kvstore.protocol import KINDS, event_loop_factory

LATE_REPORTS_S = 0.1
"""Seconds an event loop stays open for gRPC after its calls were cancelled."""


class Client:
    """Runs one strategy over connections to one server, or to several.

    Several servers share out the keys. With `choose`, each has all of them.
    """

    def __init__(
        self,
        channel: grpc.Channel,
        server: Target | str,
        operations: AnyOperations | MethodOperations,
        options: RunOptions | None = None,
        *,
        station_times: bool = False,
        name_calls: bool = False,
        on_start: Callable[[], object] | None = None,
        choose: Choose | None = None,
    ) -> None:
        options = options or RunOptions()
        self._batch = options.batch
        self.recorder = Recorder(KINDS, on_start)
        self.reader = PipelineReader(operations.created)
        self.connections = Connections(
            channel, server, options.connections, options.service_config, choose
        )
        of_any_service = isinstance(operations, MethodOperations)  # then requests are bytes

        def created(request: Any) -> None:
            operations.created(request.key)

        self.recording = Recording(
            recorder=self.recorder,
            deadline_s=options.deadline_s,
            station_times=station_times,
            name_calls=name_calls,
            route=self.connections.route,
            on_ok={} if of_any_service else {f"/{SERVICE}/Create": created},
            pipeline=None if of_any_service else self.reader,
        )
        self._stub = operations.stub
        self.loop_cpu_s = math.nan
        """CPU seconds of the event loop on which calls were made; NaN without one."""
        self._channel = channel
        self._loop: tuple[asyncio.AbstractEventLoop, asyncio.Task[object]] | None = None

    def open(self) -> None:
        """Open the connections for calls from threads, unless they are open."""
        self.connections.open()

    def run(
        self,
        strategy: Strategy,
        schedule: Schedule | Iterator[Operation],
        in_flight: int,
        streams: int = 0,
    ) -> None:
        """Run the strategy until it returns. Raises what the strategy raises.

        With `streams`, it runs once for each of them, with a share of `in_flight`.
        """
        if _is_async(strategy):
            assert isinstance(schedule, Schedule), "an event loop needs `async for`"
            self._run_on_loop(strategy, schedule, in_flight, streams)
            return
        channel = MeasuredChannel(self.connections.open(), self.recording)
        self.recorder.connected()
        strategy(self._stub(channel), schedule, in_flight)

    def _run_on_loop(
        self, strategy: Strategy, schedule: Schedule, in_flight: int, streams: int
    ) -> None:
        """Run the strategy on an event loop of its own, with channels that belong to this loop.

        A notebook has an event loop already, so the strategy runs in a thread with another loop.
        """

        async def work(channel: MeasuredAioChannel) -> None:
            if not streams:
                await strategy(self._stub(channel), schedule, in_flight)
                return
            async with asyncio.TaskGroup() as group:
                for number in range(streams):
                    connection = number % len(self.connections)
                    stub = self._stub(channel.on_connection(connection))
                    requests = schedule.stream(self._batch, connection % self.connections.shards)
                    share = in_flight // streams + (number < in_flight % streams)
                    group.create_task(strategy(stub, requests, share))

        async def with_channel() -> None:
            task = asyncio.current_task()
            assert task is not None
            async with AsyncExitStack() as stack:
                self._loop = (asyncio.get_running_loop(), task)
                try:
                    channels = await self.connections.aopen(stack)
                    self.recorder.connected()
                    began_s = time.thread_time()
                    try:
                        await work(MeasuredAioChannel(channels, self.recording))
                    finally:
                        self.loop_cpu_s = time.thread_time() - began_s
                finally:
                    self._loop = None

        async def until_settled() -> None:
            try:
                await with_channel()
            except BaseException:
                # gRPC reports the end of a cancelled call to this loop a moment later. If the loop
                # were closed by then, the report would raise an error in the loop of the next run.
                await asyncio.sleep(LATE_REPORTS_S)
                raise

        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(until_settled())

    def cancel(self) -> None:
        """End every call in flight; each is recorded as CANCELLED, or NO_ANSWER on a stream."""
        if self._loop is not None:
            loop, task = self._loop
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                pass  # the loop was closed meanwhile: no call is in flight on it
        self.close()
        self._channel.close()

    def close(self) -> None:
        """Close the connections that this client opened; its caller closes the given channel."""
        self.connections.close()


def _is_async(strategy: Strategy) -> bool:
    """Return whether the strategy is an `async def`, or an object whose call is one."""
    called = getattr(type(strategy), "__call__", None)  # noqa: B004 - its class decides
    return inspect.iscoroutinefunction(strategy) or inspect.iscoroutinefunction(called)


# `measured_channel`: open connections to a server and record every call over them.


class measured_channel:
    """Connections to one server that record every call.

    `with` opens them and yields a `grpc.Channel`; `async with` yields a `grpc.aio.Channel`. At the
    end of the block, calls in flight are cancelled and recorded as CANCELLED.
    """

    def __init__(
        self,
        target: object,
        *,
        deadline_s: float | None = None,
        connections: int = 1,
        service_config: Mapping[str, Any] | None = None,
        station_times: bool = True,
    ) -> None:
        """Check the settings. `target` is what `serving()` yields, or an address.

        `deadline_s` applies to each call that sets none. Calls and streams are distributed evenly
        over the connections. `service_config` is gRPC's, such as a retryPolicy: a call that gRPC
        retries is one call of the records. `station_times` says whether to read the server's
        station times. Raises `ValueError` for a setting that makes no sense; entering the block
        raises what `connections.open_all` raises.
        """
        target = target_of(target)
        if len(target.shards) > 1:
            raise ValueError(f"target must be one server, got {target.address}")
        if not isinstance(connections, int) or connections < 1:
            raise ValueError(f"connections must be a whole number of 1 or more, got {connections}")
        if deadline_s is not None and not 0 < deadline_s < math.inf:
            raise ValueError(f"deadline_s must be above 0 seconds, got {deadline_s}")
        self._targets = [target] * connections
        self._service_config = service_config
        self._settings = {
            "deadline_s": deadline_s,
            "connections": connections,
            "service_config": dict(service_config or {}),
            "station_times": station_times,
        }
        self._recording = Recording(
            recorder=Recorder(KINDS),
            deadline_s=deadline_s,
            station_times=station_times,
            route=route(1, connections),
            pipeline=PipelineReader(),
        )
        self._opened: list[Opened] = []
        self._was_opened = False
        self._end: Callable[[], Any] = lambda: None
        """Ends the block; of `async with`, it is a coroutine function."""
        self._started_at = ""
        self._cpu = [NO_CPU, NO_CPU]
        """CPU time of this process at the start of the block and, afterwards, at its end."""

    def __enter__(self) -> MeasuredChannel:
        self._check_first_use()
        with ExitStack() as stack:
            self._opened = open_all(self._targets, stack, self._service_config)
            channel = MeasuredChannel([each.channel for each in self._opened], self._recording)
            self._start(channel, stack)
            stack.enter_context(channel)
            self._end = stack.pop_all().close
        return channel

    def __exit__(self, *error: object) -> None:
        self._end()

    async def __aenter__(self) -> MeasuredAioChannel:
        self._check_first_use()
        async with AsyncExitStack() as stack:
            self._opened = await aopen_all(self._targets, stack, self._service_config)
            channel = MeasuredAioChannel([each.channel for each in self._opened], self._recording)
            self._start(channel, stack)
            await stack.enter_async_context(channel)
            self._end = stack.pop_all().aclose
        return channel

    async def __aexit__(self, *error: object) -> None:
        await self._end()

    def run(self) -> Run:
        """Every call so far as a `Run`: in the block, or after it.

        Its window ends with the last call that has ended.
        """
        before, after = self._cpu
        if after is NO_CPU:
            after = _cpu_now()
        peers = {each.peer for each in self._opened}
        return run_of(
            self._recording.recorder,
            self._opened,
            strategy="channel",
            in_flight=0,
            settings=self._settings,
            server=ServerReport(),
            started_at=self._started_at,
            outcome=Outcome.COMPLETE,
            sample_rows=sample_rows([]),
            client_cpu=Cpu(after.user_s - before.user_s, after.system_s - before.system_s),
            connections=0 if "" in peers else len(peers),
        )

    def _check_first_use(self) -> None:
        if self._was_opened:
            raise RuntimeError(
                "this measured channel was opened before: make another one with"
                " measured_channel(...), because each records one block"
            )
        self._was_opened = True

    def _start(self, channel: RecordingChannel, stack: ExitStack | AsyncExitStack) -> None:
        channel.run = self.run
        self._started_at = now_text()
        self._cpu[0] = _cpu_now()
        self._recording.recorder.connected()
        stack.callback(self._stop)

    def _stop(self) -> None:
        self._cpu[1] = _cpu_now()


def now_text() -> str:
    """Return the time of day with the zone, as a run keeps it."""
    return datetime.now().astimezone().isoformat(timespec="milliseconds")


def run_of(
    recorder: Recorder, opened: Sequence[Opened], elapsed_s: float = 0.0, **others: Any
) -> Run:
    """Return the run of these records and connections; without a call, it took `elapsed_s`."""
    records = recorder.array()
    return Run(
        host=describe_host(),
        window_s=float(records["done_s"].max()) if len(records) else elapsed_s,
        issued=recorder.issued,
        records=records,
        connect_s=[each.connect_s for each in opened],
        operations_sent=recorder.issued_operations,
        kinds=recorder.kinds,
        **others,
    )


def _cpu_now() -> Cpu:
    """Return the CPU time of this process so far."""
    return Cpu(*psutil.Process().cpu_times()[:2])
