"""`python -m kvstore.server`: serve until Ctrl-C, SIGTERM or the end of the parent process.

command        its flags; the address on the first line of output
serving        on a thread pool or on one event loop, until the server is stopped
status         the report of this process: identity, settings, CPU time; and reflection
"""

import argparse
import asyncio
import ipaddress
import logging
import os
import platform
import socket
import sys
import threading
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import grpc
import psutil
from google.protobuf import descriptor_pool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kvstore import gc_control
from kvstore.credentials import Access, access_from
from kvstore.flags import add_flags, given_flags
from kvstore.protocol import event_loop_factory
from kvstore.server.admission import Attempt, MeasuredPool, channel_options, interceptors, noted
from kvstore.server.counts import Counts
from kvstore.server.service import AsyncKeyValueService, KeyValueService
from kvstore.server_settings import ServerSettings
from kvstore.subprocesses import listen, on_signals
from kvstore.v1 import (
    kvstore_pb2,
    kvstore_pb2_grpc,
    server_status_pb2,
    server_status_pb2_grpc,
)


def parser() -> argparse.ArgumentParser:
    """Return the command line: a flag for each field of `ServerSettings`, and some besides."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.server",
        description="A gRPC key-value server to measure. The first line it prints is its address.",
    )
    add_flags(parse, ServerSettings)
    parse.add_argument(
        "--settings",
        type=ServerSettings.from_json,
        default=ServerSettings(),
        metavar="JSON",
        help="all settings at once, as ServerSettings.to_json writes them",
    )
    parse.add_argument(
        "--identity", default="", help="a word that GetServerStatus reports, for clients to check"
    )
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = parser()
    namespace = parse.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    flags = given_flags(namespace, ServerSettings)
    if flags.get("use_asyncio") and "threads" in flags:
        parse.error("--threads is the size of a pool, and --use-asyncio has none: give one of them")
    try:
        settings: ServerSettings = replace(namespace.settings, **flags)
    except ValueError as error:
        parse.error(str(error))
    try:
        serve(settings, namespace.identity, partial(_print_address, settings))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _print_address(settings: ServerSettings, port: int, stop: Callable[[], object]) -> None:
    listen(stop)
    gc_control.settle()
    address = ipaddress.ip_address(settings.listen)
    if address.is_unspecified:  # every address: a client on this machine takes the loopback's
        print(f"listening at port {port} of every address", file=sys.stderr, flush=True)
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    print(f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}", flush=True)


GRACE_S = 5.0
"""Seconds in which calls in flight may finish after the server was stopped."""

Ready = Callable[[int, Callable[[], object]], None]
"""A function of the port, and of a function that stops the server; called once it listens."""

KEY_VALUE = kvstore_pb2.DESCRIPTOR.services_by_name["KeyValueService"].full_name
SERVER_STATUS = server_status_pb2.DESCRIPTOR.services_by_name["ServerStatusService"].full_name
SERVICES = ("", KEY_VALUE, SERVER_STATUS)
"""The services of the health check; the empty name is the whole server."""


def service_of(settings: ServerSettings) -> Callable[..., Any]:
    """Return the class of the key-value service.

    Only what is chosen is imported: imports are most of the time that a server needs to start.
    """
    if settings.servicer:
        from kvstore.server.hosted import AsyncHostedService, HostedService

        return AsyncHostedService if settings.use_asyncio else HostedService
    if settings.back_end:
        from kvstore.server.forwarding import AsyncFrontService, FrontService

        return AsyncFrontService if settings.use_asyncio else FrontService
    if settings.store_kind == "sqlite":
        from kvstore.server.durable import DurableService

        return DurableService
    if settings.store_kind == "etcd":
        from kvstore.server.etcd import EtcdService

        return EtcdService
    return AsyncKeyValueService if settings.use_asyncio else KeyValueService


def serve(settings: ServerSettings, identity: str, on_ready: Ready) -> None:
    """Serve until a signal or the stop function given to `on_ready`; return when drained.

    Raises `OSError` naming the port, the file or the folder that cannot be used.
    """
    access = None if settings.tls is None else access_from(settings.tls)
    if settings.use_asyncio:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(_serve_async(settings, access, identity, on_ready))
    else:
        _serve_threads(settings, access, identity, on_ready)


def _serve_threads(
    settings: ServerSettings,
    access: Access | None,
    identity: str,
    on_ready: Ready,
) -> None:
    stop = threading.Event()
    on_signals(stop.set)
    pool = MeasuredPool(settings.threads, "pool", newest_first=settings.newest_first)
    server, service, checks, port = _listening(settings, access, identity, pool)
    server.start()
    for name in SERVICES:
        checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    on_ready(port, stop.set)
    while not stop.wait(1.0):
        pass  # a wait without end cannot be interrupted on Windows
    checks.enter_graceful_shutdown()
    server.stop(GRACE_S).wait()
    pool.shutdown(wait=False, cancel_futures=True)
    service.close()


async def _serve_async(
    settings: ServerSettings,
    access: Access | None,
    identity: str,
    on_ready: Ready,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def request_stop() -> None:
        loop.call_soon_threadsafe(stop.set)

    on_signals(request_stop)
    server, service, checks, port = _listening(settings, access, identity)
    await server.start()
    for name in SERVICES:
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    on_ready(port, request_stop)
    stopping = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(server.wait_for_termination())
    while not (stop.is_set() or ended.done()):  # signal handlers of Python run between waits
        await asyncio.wait((stopping, ended), timeout=0.5, return_when=FIRST_COMPLETED)
    await checks.enter_graceful_shutdown()
    await server.stop(GRACE_S)
    await ended  # raises what ended the server before it was stopped
    await service.close()


def _listening(
    settings: ServerSettings, access: Access | None, identity: str, *pool: MeasuredPool
) -> tuple[Any, Any, Any, int]:
    """Return a server that has its port, to be started; its services of data and health; the port.

    A server on threads needs their `pool`. Without `access`, the address is one of the loopback
    interface.
    """
    counts, before_methods = Counts(), interceptors(settings, access)
    server = (grpc.aio if settings.use_asyncio else grpc).server(
        *pool,
        interceptors=before_methods,
        options=channel_options(settings),
        maximum_concurrent_rpcs=settings.max_concurrent_rpcs,
    )
    service = service_of(settings)(settings, counts, *pool)
    status = (AsyncServerStatusService if settings.use_asyncio else ServerStatusService)(
        settings, identity, counts, noted(before_methods), getattr(service, "observed", None)
    )
    checks = (health.aio if settings.use_asyncio else health).HealthServicer()
    kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(service, server)
    server_status_pb2_grpc.add_ServerStatusServiceServicer_to_server(status, server)
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (KEY_VALUE, SERVER_STATUS, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=_SymbolsWithMethods())
    address, port = settings.listen, settings.port
    place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    try:
        bound = int(
            server.add_insecure_port(place)
            if access is None
            else server.add_secure_port(place, access.credentials)
        )
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(
            f"port {port} of {address} cannot be used: another program has it, it is reserved, or"
            " this machine does not have the address. Port 0 takes any free port."
        )
    return server, service, checks, bound


@dataclass(eq=False)
class ServerStatusService(server_status_pb2_grpc.ServerStatusServiceServicer):
    """Reports the status, on threads or asyncio: nothing in it waits."""

    settings: ServerSettings
    identity: str
    counts: Counts
    attempts: Sequence[Attempt] = ()
    observed: Callable[[], ServerSettings] | None = None
    """Returns the settings as they were seen, for a servicer that is not ours."""

    def GetServerStatus(
        self, request: server_status_pb2.GetServerStatusRequest, context: grpc.ServicerContext
    ) -> server_status_pb2.GetServerStatusResponse:
        """Return the identity, the settings, and the counts so far."""
        cpu = psutil.Process().cpu_times()
        return server_status_pb2.GetServerStatusResponse(
            identity=self.identity,
            host_name=socket.gethostname(),
            process_id=os.getpid(),
            settings_json=(self.observed() if self.observed else self.settings).to_json(),
            operations=self.counts.by_name(),
            cpu_user_s=cpu.user,
            cpu_system_s=cpu.system,
            versions=_versions(),
            peer=context.peer(),
            attempts=[
                server_status_pb2.Attempt(
                    call=each.call,
                    before=each.before,
                    arrived_s=each.arrived_s,
                    ended_s=each.ended_s,
                )
                for each in tuple(self.attempts)
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


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: it would wait until every thread of the pool has finished what is queued.
    os._exit(status)
