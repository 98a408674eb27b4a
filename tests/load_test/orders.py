"""A service as others write them: several .proto files, and reflection that can misbehave."""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_reflection.v1alpha import reflection_pb2
from hostile import answering

from kvstore.client.reflection import in_sources

MONEY = """
syntax = "proto3";
package shop.common;
message Money { string currency = 1; int64 units = 2; }
"""
ORDERS = """
syntax = "proto3";
package shop.v1;
import "shop/common/money.proto";
import "google/protobuf/any.proto";
message Detail { string note = 1; }
message Order {
  string id = 1;
  int64 customer_id = 2;
  shop.common.Money price = 3;
  repeated google.protobuf.Any details = 4;
  map<string, int32> items = 5;
  int32 reply_bytes = 6;
  double ratio = 7;
}
message Seen { string text = 1; int64 number = 2; bytes data = 3; }
service Orders {
  rpc Place (Order) returns (Seen);
  rpc Ping (Order) returns (Seen);
  rpc Upload (stream Order) returns (Seen);
  rpc Watch (Order) returns (stream Seen);
}
"""
LEGACY = """
syntax = "proto2";
package shop.legacy;
message Old { required string id = 1; optional int32 n = 2; }
service Legacy { rpc Get (Old) returns (Old); }
"""
SOURCES = {
    "shop/common/money.proto": MONEY,
    "shop/v1/orders.proto": ORDERS,
    "shop/legacy.proto": LEGACY,
}
PLACE, PING, UPLOAD, WATCH = (
    f"shop.v1.Orders/{name}" for name in ("Place", "Ping", "Upload", "Watch")
)


def written(folder: Path) -> Path:
    """The sources in a folder."""
    for name, text in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def descriptor_set(folder: Path) -> bytes:
    """All files of the service, compiled."""
    sources = [str(written(folder) / name) for name in SOURCES]
    return in_sources(sources, [str(folder)]).serialized()


class Oddities(NamedTuple):
    """How reflection misbehaves."""

    token: str = ""
    """What the metadata must carry as `authorization`."""
    refused: str = ""
    """A version of reflection that answers UNAVAILABLE."""
    placeholder: str = ""
    """A file in whose place a placeholder comes, as from Go."""
    missing: str = ""
    """A file that is not described."""
    only: tuple[str, ...] = ("v1", "v1alpha")
    """Versions of reflection."""
    answers: float = math.inf
    """Calls that are answered; later ones fail."""


class Orders:
    """The service, and what it has received."""

    def __init__(self, files: bytes, odd: Oddities) -> None:
        self.odd = odd
        self.address = ""
        self.received: list[tuple[bytes, list[tuple[str, Any]]]] = []
        self._lock = threading.Lock()
        self.files = {each.name: each for each in FileDescriptorSet.FromString(files).file}

    def place(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Remember the request; reply with a text "ok" and a number."""
        with self._lock:
            self.received.append((request, list(context.invocation_metadata())))
            if len(self.received) > self.odd.answers:
                context.abort(grpc.StatusCode.INTERNAL, "as asked")
        size = 5_000_000 if request.startswith(b"\x0a\x03big") else 0
        data = b"\x1a" + _varint(size) + bytes(size) if size else b""
        return b"\x0a\x02ok\x10\x07" + data

    def upload(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """Count the requests of a stream."""
        with self._lock:
            self.received += [(each, []) for each in requests]
        return b""

    def watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Reply until the caller leaves."""
        left = threading.Event()
        context.add_callback(left.set)
        while not left.wait(0.01):
            yield b"\x0a\x02ok"

    def reflect(self, version: str, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        """Answer as the reflection service does."""
        metadata = dict(context.invocation_metadata())
        if self.odd.token and metadata.get("authorization") != self.odd.token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "missing bearer token")
        if version == self.odd.refused:
            context.abort(grpc.StatusCode.UNAVAILABLE, "no healthy upstream")
        for request in requests:
            reply = reflection_pb2.ServerReflectionResponse()
            if request.WhichOneof("message_request") == "list_services":
                for name in ("shop.v1.Orders", "shop.legacy.Legacy"):
                    reply.list_services_response.service.add(name=name)
            elif (file := self._file(request)) is None:
                reply.error_response.error_code = 5
            else:
                raw = file.SerializeToString()
                reply.file_descriptor_response.file_descriptor_proto.append(raw)
            yield reply

    def _file(self, request: Any) -> FileDescriptorProto | None:
        name = request.file_by_filename
        if name == self.odd.placeholder != "":
            return FileDescriptorProto(name=name, syntax="<unknown:0>")
        if name == self.odd.missing != "":
            return None
        if name:
            return self.files.get(name)
        symbol = request.file_containing_symbol
        for each in self.files.values():
            kinds = [*each.service, *each.message_type]
            if symbol in [f"{each.package}.{kind.name}" for kind in kinds]:
                return each
        return None


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


@contextmanager
def orders(files: bytes, **odd: Any) -> Iterator[Orders]:
    """Run the service in threads of this process; `odd` are fields of `Oddities`."""
    service = Orders(files, Oddities(**odd))
    methods = {
        "Place": grpc.unary_unary_rpc_method_handler(service.place),
        "Ping": grpc.unary_unary_rpc_method_handler(service.place),
        "Upload": grpc.stream_unary_rpc_method_handler(service.upload),
        "Watch": grpc.unary_stream_rpc_method_handler(service.watch),
    }
    handlers = [grpc.method_handlers_generic_handler("shop.v1.Orders", methods)]
    for version in service.odd.only:
        reflect = grpc.stream_stream_rpc_method_handler(
            lambda requests, context, version=version: service.reflect(version, requests, context),
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        name = f"grpc.reflection.{version}.ServerReflection"
        handlers.append(
            grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": reflect})
        )
    with answering(*handlers, options=[("grpc.max_send_message_length", -1)]) as address:
        service.address = address
        yield service
