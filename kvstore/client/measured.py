"""`measured_channel`: open connections to a server and record every call over them."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from typing import Any, TypeVar

import grpc
import psutil

from kvstore.client.channel import target_of
from kvstore.client.connections import Opened, aopen_all, open_all, route
from kvstore.client.measured_channel import MeasuredChannel
from kvstore.client.measured_channel_aio import MeasuredAioChannel
from kvstore.client.messages import PIPELINE, PipelineReader
from kvstore.client.recording import Recording
from kvstore.measure.host import describe_host
from kvstore.measure.outcome import Outcome
from kvstore.measure.recorder import Recorder
from kvstore.measure.run import Run
from kvstore.measure.sampler import NO_CPU, Cpu, Sample
from kvstore.protocol import KINDS

_Stack = TypeVar("_Stack", ExitStack, AsyncExitStack)


class OpenedChannel(MeasuredChannel):
    """The measured channel inside a `with` block."""

    def __init__(
        self, channels: Sequence[grpc.Channel], recording: Recording, run: Callable[[], Run]
    ) -> None:
        super().__init__(channels, recording)
        self.run = run
        """Every call so far as a `Run`, in the block or after it."""


class OpenedAioChannel(MeasuredAioChannel):
    """The measured channel inside an `async with` block."""

    def __init__(
        self, channels: Sequence[grpc.aio.Channel], recording: Recording, run: Callable[[], Run]
    ) -> None:
        super().__init__(channels, recording)
        self.run = run
        """Every call so far as a `Run`, in the block or after it."""


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
        metadata: Mapping[str, str] | None = None,
        connections: int = 1,
        service_config: Mapping[str, Any] | None = None,
        station_times: bool = True,
    ) -> None:
        """Check the settings. `target` is what `serving()` yields, or an address.

        `deadline_s` and `metadata` apply to each call that sets none. Calls and streams are
        distributed evenly over the connections. `service_config` is gRPC's, such as a retryPolicy:
        a call that gRPC retries is one call of the records. `station_times` says whether to read
        the server's station times. Raises `ValueError` for a setting that makes no sense; entering
        the block raises what `connections.open_all` raises.
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
            "metadata": dict(metadata or {}),
            "connections": connections,
            "service_config": dict(service_config or {}),
            "station_times": station_times,
        }
        self._recording = Recording(
            recorder=Recorder(KINDS),
            deadline_s=deadline_s,
            metadata=tuple((metadata or {}).items()) or None,
            station_times=station_times,
            route=route(1, connections),
            readers={PIPELINE: PipelineReader()},
        )
        self._opened: list[Opened] = []
        self._stack: ExitStack | AsyncExitStack | None = None
        self._started_at = ""
        self._cpu = [NO_CPU, NO_CPU]
        """CPU time of this process at the start of the block and, afterwards, at its end."""

    def __enter__(self) -> OpenedChannel:
        stack = self._stack = self._first_use(ExitStack())
        with ExitStack() as opening:
            self._opened = open_all(self._targets, opening, self._service_config)
            stack.push(opening.pop_all())
        self._start()
        stack.callback(self._stop)
        channel = OpenedChannel([each.channel for each in self._opened], self._recording, self.run)
        stack.enter_context(channel)
        return channel

    def __exit__(self, *error: object) -> None:
        assert isinstance(self._stack, ExitStack)
        self._stack.close()

    async def __aenter__(self) -> OpenedAioChannel:
        stack = self._stack = self._first_use(AsyncExitStack())
        async with AsyncExitStack() as opening:
            self._opened = await aopen_all(self._targets, opening, self._service_config)
            stack.push_async_exit(opening.pop_all())
        self._start()
        stack.callback(self._stop)
        channel = OpenedAioChannel(
            [each.channel for each in self._opened], self._recording, self.run
        )
        await stack.enter_async_context(channel)
        return channel

    async def __aexit__(self, *error: object) -> None:
        assert isinstance(self._stack, AsyncExitStack)
        await self._stack.aclose()

    def run(self) -> Run:
        """Every call so far as a `Run`: in the block, or after it.

        Its window ends with the last call that has ended.
        """
        import pandas as pd

        recorder = self._recording.recorder
        records = recorder.array()
        before, after = self._cpu
        if after is NO_CPU:
            after = _cpu_now()
        peers = {each.peer for each in self._opened}
        return Run(
            strategy="channel",
            in_flight=0,
            settings=self._settings,
            server={"address": self._targets[0].address},
            host=describe_host(),
            started_at=self._started_at,
            window_s=float(records["done_s"].max()) if len(records) else 0.0,
            issued=recorder.issued,
            outcome=Outcome.COMPLETE,
            records=records,
            samples=pd.DataFrame([], columns=list(Sample._fields), dtype=float),
            client_cpu=Cpu(after.user_s - before.user_s, after.system_s - before.system_s),
            connections=0 if "" in peers else len(peers),
            connect_s=[each.connect_s for each in self._opened],
            operations_sent=recorder.issued_operations,
            kinds=recorder.kinds,
        )

    def _first_use(self, stack: _Stack) -> _Stack:
        if self._stack is not None:
            raise RuntimeError(
                "this measured channel was opened before: make another one with"
                " measured_channel(...), because each records one block"
            )
        return stack

    def _start(self) -> None:
        self._started_at = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._cpu[0] = _cpu_now()
        self._recording.recorder.connected()

    def _stop(self) -> None:
        self._cpu[1] = _cpu_now()


def _cpu_now() -> Cpu:
    """Return the CPU time of this process so far."""
    times = psutil.Process().cpu_times()
    return Cpu(times.user, times.system)
