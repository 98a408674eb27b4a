"""The client of one run: its connections, the measured channel over them, and its strategy."""

import asyncio
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import grpc

from kvstore.client.channel import Target
from kvstore.client.connections import Connections
from kvstore.client.measured_channel import MeasuredChannel
from kvstore.client.measured_channel_aio import MeasuredAioChannel
from kvstore.client.messages import PIPELINE, SERVICE, Operation, PipelineReader
from kvstore.client.method_calls import MethodOperations
from kvstore.client.recording import Recording
from kvstore.client.schedule import Schedule
from kvstore.client.sharded_workload import AnyOperations
from kvstore.client.strategies import Strategy, supports
from kvstore.event_loop import event_loop_factory
from kvstore.measure.recorder import Recorder
from kvstore.protocol import KINDS

LATE_REPORTS_S = 0.1
"""Seconds an event loop stays open for gRPC after its calls were cancelled."""


class Client:
    """Runs one strategy over connections to one server, or to several that share out the keys."""

    def __init__(
        self,
        channel: grpc.Channel,
        server: Target | str,
        *,
        operations: AnyOperations | MethodOperations,
        deadline_s: float = 30.0,
        station_times: bool = False,
        metadata: Mapping[str, str] | None = None,
        connections: int = 1,
        service_config: Mapping[str, Any] | None = None,
        on_start: Callable[[], object] | None = None,
    ) -> None:
        self.recorder = Recorder(KINDS, on_start)
        self.reader = PipelineReader(operations.created)
        self.connections = Connections(channel, server, connections, service_config)
        self.recording = Recording(
            recorder=self.recorder,
            deadline_s=deadline_s,
            metadata=tuple((metadata or {}).items()) or None,
            station_times=station_times,
            route=self.connections.route,
            on_ok={f"/{SERVICE}/Create": lambda request: operations.created(request.key)},
            readers={PIPELINE: self.reader},
            whole_streams=isinstance(operations, MethodOperations),
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
        *,
        streams: int = 1,
        batch: int = 1,
        **options: Any,
    ) -> None:
        """Run the strategy until it returns. Raises what the strategy raises.

        One that supports streams runs once for each of `streams`, with a share of `in_flight`.
        """
        if _is_async(strategy):
            assert isinstance(schedule, Schedule), "an event loop needs `async for`"
            self._run_on_loop(strategy, schedule, in_flight, streams, batch, options)
            return
        channel = MeasuredChannel(self.connections.open(), self.recording)
        self.recorder.connected()
        strategy(self._stub(channel), schedule, in_flight, **options)

    def _run_on_loop(
        self,
        strategy: Strategy,
        schedule: Schedule,
        in_flight: int,
        streams: int,
        batch: int,
        options: Mapping[str, Any],
    ) -> None:
        """Run the strategy on an event loop of its own, with channels that belong to this loop.

        A notebook has an event loop already, so the strategy runs in a thread with another loop.
        """

        async def work(channel: MeasuredAioChannel) -> None:
            if not supports(strategy).streams:
                await strategy(self._stub(channel), schedule, in_flight, **options)
                return
            async with asyncio.TaskGroup() as group:
                for number in range(streams):
                    connection = number % len(self.connections)
                    stub = self._stub(channel.on_connection(connection))
                    requests = schedule.stream(batch, connection % self.connections.shards)
                    share = in_flight // streams + (number < in_flight % streams)
                    group.create_task(strategy(stub, requests, share, **options))

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
