"""The status report: identity, settings, counts and CPU time; and reflection."""

import asyncio
import json
import os
import platform
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
import psutil
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection

from kvstore import transport
from kvstore.gc_control import CollectorWatch
from kvstore.protocol import KINDS, OK, STATUSES
from kvstore.server.settings import ServerSettings
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc

STATUS_CODE: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
"""gRPC's status by its number."""


class Counts:
    """The number of operations answered, by kind and status; safe for several threads.

    It is independent of the client's count, so a wrong count of the client is detected.
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
        if statuses.count(OK) == len(statuses):  # then one count for each kind suffices
            found = [((kind, OK), kinds.count(kind)) for kind in set(kinds)]
        else:
            found = Counter(zip(kinds, statuses, strict=True)).items()
        with self._lock:
            for what, count in found:
                self._counts[what] += count

    def by_name(self) -> dict[str, int]:
        """Return the counts under names such as "create/OK"."""
        with self._lock:
            counts = dict(self._counts)
        return {f"{_kind_name(kind)}/{STATUSES[s]}": n for (kind, s), n in counts.items()}


def _kind_name(kind: int) -> str:
    return KINDS[kind] if 0 < kind < len(KINDS) else f"kind {kind}"


class ServerStatusService(server_status_pb2_grpc.ServerStatusServiceServicer):
    """Reports the status, on threads or asyncio: nothing in it waits."""

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
        """Return the identity, the settings, and the counts so far."""
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
    """The same report as a coroutine, for a server on asyncio."""

    async def GetServerStatus(self, request: Any, context: Any) -> Any:  # type: ignore[override]
        """Return the identity, the settings, and the counts so far."""
        report = super().GetServerStatus(request, context)
        report.loop_cpu_s = time.thread_time()  # this thread runs the event loop
        return report


def _versions() -> dict[str, str]:
    versions = {
        "grpcio": grpc.__version__,
        "python": platform.python_version(),
        "transport": transport.in_force(),
    }
    try:
        versions["event_loop"] = type(asyncio.get_running_loop()).__module__.split(".")[0]
    except RuntimeError:
        pass  # a thread of the pool has no loop
    return versions


class _SymbolsWithMethods:
    """The descriptor pool, with methods among the symbols that it finds.

    Python's pool finds only messages, fields and services. ghz looks up the method that it calls.
    """

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        """Return the file that describes this symbol. Raises `KeyError` when none does."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            name, _, method = symbol.rpartition(".")
            service = self._pool.FindServiceByName(name)
            return service.methods_by_name[method].containing_service.file


def enable_reflection(services: Sequence[str], server: Any) -> None:
    """Enable reflection of these services, and of itself, on a server of either stack."""
    reflection.enable_server_reflection(
        (*services, reflection.SERVICE_NAME), server, pool=_SymbolsWithMethods()
    )
