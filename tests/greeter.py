"""A small service that is not the course's: four methods, one for each kind, and reflection.

It uses nothing of ours but the start of a process. As a program it prints its address, and serves
until its input ends. It is made with gRPC's generic handlers, so no
code is generated for it. A pool of workers does the work of each greeting.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

from kvstore.subprocesses import process

SERVICE = "greeter.v1.Greeter"
THREADS = 128
"""Threads of gRPC: more than calls in flight, so that only the workers limit the service."""
START_S = 20.0
"""Seconds in which the process must start."""


def description() -> descriptor_pb2.FileDescriptorProto:
    """Return what a file greeter.proto would describe."""
    text = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
    one = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    file = descriptor_pb2.FileDescriptorProto(
        name="greeter.proto", package="greeter.v1", syntax="proto3"
    )
    for name, field in (("HelloRequest", "name"), ("HelloReply", "text")):
        message = file.message_type.add(name=name)
        message.field.add(name=field, number=1, type=text, label=one)
    service = file.service.add(name="Greeter")
    for name, sends, answers in (
        ("Hello", False, False),
        ("HelloToEach", False, True),
        ("HelloToAll", True, False),
        ("Chat", True, True),
    ):
        service.method.add(
            name=name,
            input_type=".greeter.v1.HelloRequest",
            output_type=".greeter.v1.HelloReply",
            client_streaming=sends,
            server_streaming=answers,
        )
    return file


class _Greeter:
    """The methods. Each greeting occupies one of `workers` workers for `work_s` seconds."""

    def __init__(self, reply: Any, work_s: float, workers: int, token: str | None) -> None:
        self._reply = reply
        self._work_s = work_s
        self._free = threading.Semaphore(workers)
        self._token = token

    def hello(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._check(context)
        return self._greet(request.name)

    def hello_to_each(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self._check(context)
        for name in request.name.split(","):
            yield self._greet(name)

    def hello_to_all(self, requests: Iterable[Any], context: grpc.ServicerContext) -> Any:
        self._check(context)
        return self._greet(" and ".join(request.name for request in requests))

    def chat(self, requests: Iterable[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        self._check(context)
        for request in requests:
            yield self._greet(request.name)

    def _greet(self, name: str) -> Any:
        with self._free:
            time.sleep(self._work_s)
        return self._reply(text=f"Hello {name}")

    def _check(self, context: grpc.ServicerContext) -> None:
        if self._token and dict(context.invocation_metadata()).get("authorization") != self._token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a token is required")


def _handler(greeter: _Greeter, request: Any) -> grpc.GenericRpcHandler:
    codecs = (request.FromString, lambda reply: reply.SerializeToString())
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "Hello": grpc.unary_unary_rpc_method_handler(greeter.hello, *codecs),
            "HelloToEach": grpc.unary_stream_rpc_method_handler(greeter.hello_to_each, *codecs),
            "HelloToAll": grpc.stream_unary_rpc_method_handler(greeter.hello_to_all, *codecs),
            "Chat": grpc.stream_stream_rpc_method_handler(greeter.chat, *codecs),
        },
    )


class Greeter(NamedTuple):
    """A running greeter."""

    address: str
    pid: int


@contextmanager
def greeter(**settings: Any) -> Iterator[Greeter]:
    """Serve greetings from a process of its own while the block lasts.

    `work_s` is the time of one greeting in seconds, `workers` the number of greetings at the same
    time. More calls than `at_once` are refused. `port` is a free one by default. `token` is
    required in the metadata `authorization`. `cert` and `key` are files for TLS, `client_ca` one
    that signs the certificates of clients. `reflection=False` leaves reflection out. Raises
    `RuntimeError` if the process does not start.
    """
    flags = [
        f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if value != ""
    ]
    with process([sys.executable, __file__, *flags]) as child:
        address = child.first_line(START_S)
        if not address:
            raise RuntimeError(f"the greeter did not start: {child.error_text()}")
        yield Greeter(address, child.pid)


def main() -> None:
    """Serve until standard input ends."""
    parse = argparse.ArgumentParser(prog="greeter", description=__doc__)
    parse.add_argument("--work-s", type=float, default=0.005)
    parse.add_argument("--workers", type=int, default=8)
    parse.add_argument("--at-once", type=int, default=None)
    parse.add_argument("--port", type=int, default=0)
    parse.add_argument("--token", default=None)
    for name in ("--cert", "--key", "--client-ca"):
        parse.add_argument(name, type=Path, default=None)
    parse.add_argument("--reflection", choices=("True", "False"), default="True")
    arguments = parse.parse_args()

    pool = descriptor_pool.Default()
    pool.AddSerializedFile(description().SerializeToString())
    request, reply = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"greeter.v1.{name}"))
        for name in ("HelloRequest", "HelloReply")
    )
    server = grpc.server(
        ThreadPoolExecutor(THREADS),
        options=[("grpc.so_reuseport", 0)],
        maximum_concurrent_rpcs=arguments.at_once,
    )
    service = _Greeter(reply, arguments.work_s, arguments.workers, arguments.token)
    server.add_generic_rpc_handlers((_handler(service, request),))
    if arguments.reflection == "True":
        reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server)
    if arguments.cert is None:
        port = server.add_insecure_port(f"127.0.0.1:{arguments.port}")
    else:
        certificate = [(arguments.key.read_bytes(), arguments.cert.read_bytes())]
        client_ca = arguments.client_ca.read_bytes() if arguments.client_ca else None
        credentials = grpc.ssl_server_credentials(certificate, client_ca, client_ca is not None)
        port = server.add_secure_port(f"127.0.0.1:{arguments.port}", credentials)
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    main()
