"""What the server tells of itself: identity, settings, counts, processor time."""

import asyncio
import json
import os
import platform
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import grpc
import psutil

from kvstore.codes import KINDS, OK, STATUSES
from kvstore.collector import CollectorWatch
from kvstore.server.settings import ServerSettings
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc

STATUS_CODE: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""gRPC's status by its number."""


class Counts:
    """How many operations were answered, by kind and status; threads may add at once.

    A second count, made by the other side: a client that miscounts is found out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, kind: int, status: int) -> None:
        """Count one operation."""
        with self._lock:
            self._counts[kind, status] += 1

    def add_columns(self, kinds: bytes, statuses: bytes | bytearray) -> None:
        """Count the operations of one message."""
        if len(kinds) == 1:
            self.add(kinds[0], statuses[0])
            return
        found: Iterable[tuple[tuple[int, int], int]]
        if statuses.count(OK) == len(statuses):  # then four counts do for the whole message
            found = [((kind, OK), kinds.count(kind)) for kind in set(kinds)]
        else:
            found = Counter(zip(kinds, statuses, strict=True)).items()
        with self._lock:
            for what, count in found:
                self._counts[what] += count

    def by_name(self) -> dict[str, int]:
        """Counts under names such as "create/OK"."""
        with self._lock:
            counts = dict(self._counts)
        return {f"{_kind_name(kind)}/{STATUSES[s]}": n for (kind, s), n in counts.items()}


def _kind_name(kind: int) -> str:
    return KINDS[kind] if 0 < kind < len(KINDS) else f"kind {kind}"


class ServerStatusService(server_status_pb2_grpc.ServerStatusServiceServicer):
    """Answers on both stacks: nothing in here waits."""

    def __init__(
        self, settings: ServerSettings, identity: str, counts: Counts, collector: CollectorWatch
    ) -> None:
        self._collector = collector
        self._settings_json = json.dumps(settings.as_dict())
        self._identity = identity
        self._counts = counts
        self._process = psutil.Process()

    def GetServerStatus(
        self, request: pb.GetServerStatusRequest, context: grpc.ServicerContext
    ) -> pb.GetServerStatusResponse:
        """Who serves here, how it is set, and what it has done so far."""
        cpu = self._process.cpu_times()
        return pb.GetServerStatusResponse(
            identity=self._identity,
            host_name=socket.gethostname(),
            process_id=os.getpid(),
            settings_json=self._settings_json,
            operations=self._counts.by_name(),
            cpu_user_s=cpu.user,
            cpu_system_s=cpu.system,
            versions=_versions(),
            peer=context.peer(),
            collections=[
                pb.Collections(at_unix_s=at_unix_s, **counted._asdict())
                for at_unix_s, counted in self._collector.moments()
            ],
        )


class AsyncServerStatusService(ServerStatusService):
    """The same answer as a coroutine, as an asyncio server wants it."""

    async def GetServerStatus(self, request: Any, context: Any) -> Any:  # type: ignore[override]
        """Who serves here, how it is set, and what it has done so far."""
        told = super().GetServerStatus(request, context)
        told.loop_cpu_s = time.thread_time()  # the loop's thread is the one that answers
        return told


def _versions() -> dict[str, str]:
    versions = {"grpcio": grpc.__version__, "python": platform.python_version()}
    try:
        versions["event_loop"] = type(asyncio.get_running_loop()).__module__.split(".")[0]
    except RuntimeError:
        pass  # a thread of the pool has no loop
    return versions
