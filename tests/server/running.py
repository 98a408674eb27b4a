"""`python -m kvstore.server` as a person starts it, and messages of another program's make."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kvstore.v1 import server_status_pb2, server_status_pb2_grpc

HANG_S = 15.0
"""What ought to happen at once gets this long on a busy machine."""


@contextmanager
def started_by_hand(*arguments: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The command, running; its address, which it prints first, and its process."""
    with subprocess.Popen(
        [sys.executable, "-m", "kvstore.server", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().rstrip("\n"), process
        finally:
            process.kill()


def status_of(address: str) -> Any:
    """What the server at this address says of itself."""
    with grpc.insecure_channel(address) as channel:
        return server_status_pb2_grpc.ServerStatusServiceStub(channel).GetServerStatus(
            server_status_pb2.GetServerStatusRequest(), timeout=HANG_S, wait_for_ready=True
        )


def messages_of_source_1(package: str) -> dict[str, Any]:
    """The messages of the Java original, described by hand: names, fields and numbers.

    Nothing here comes from our proto file; the package's name alone may be chosen.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    fields = {
        "CreateRequest": ["key", "value"],
        "CreateResponse": [],
        "RetrieveRequest": ["key"],
        "RetrieveResponse": ["value"],
        "UpdateRequest": ["key", "value"],
        "UpdateResponse": [],
        "DeleteRequest": ["key"],
        "DeleteResponse": [],
    }
    for name, names in fields.items():
        message = file.message_type.add(name=name)
        for number, field in enumerate(names, start=1):
            message.field.add(
                name=field,
                number=number,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in fields
    }
