"""Servers whose reflection means harm, or is broken. Each has one call: evil.Evil/Do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha.reflection_pb2 import (
    FileDescriptorResponse,
    ListServiceResponse,
    ServerReflectionRequest,
    ServerReflectionResponse,
    ServiceResponse,
)
from stacks import listening

Files = Callable[[str], list[FileDescriptorProto]]
"""The files that a server answers with, by the name of a file, or "" for that of the service."""


def file_of_service(*imports: str, name: str = "evil.proto") -> FileDescriptorProto:
    file = FileDescriptorProto(name=name, package="evil", syntax="proto3", dependency=imports)
    file.message_type.add(name="Nothing")
    method = file.service.add(name="Evil").method.add(name="Do")
    method.input_type = method.output_type = ".evil.Nothing"
    return file


def endless(name: str) -> list[FileDescriptorProto]:
    """Each file imports another one."""
    if not name:
        return [file_of_service("0.proto")]
    number = int(name.partition(".")[0])
    return [FileDescriptorProto(name=name, syntax="proto3", dependency=[f"{number + 1}.proto"])]


def deep(name: str) -> list[FileDescriptorProto]:
    """A chain of imports that ends, in one answer."""
    chain = [
        FileDescriptorProto(name=f"{n}.proto", syntax="proto3", dependency=[f"{n + 1}.proto"])
        for n in range(900)
    ]
    last = FileDescriptorProto(name="900.proto", syntax="proto3")
    return [file_of_service("0.proto"), *chain, last] if not name else []


def circle(name: str) -> list[FileDescriptorProto]:
    """Two files that import each other."""
    other = FileDescriptorProto(name="o.proto", syntax="proto3", dependency=["evil.proto"])
    return [file_of_service("o.proto"), other]


def coloured(name: str) -> list[FileDescriptorProto]:
    """The name of a missing import holds codes that a terminal obeys."""
    return [] if name else [file_of_service("\x1b[31mred\x1b]0;title\x07.proto")]


def answering(
    *handlers: grpc.GenericRpcHandler, options: Sequence[tuple[str, int]] = ()
) -> AbstractContextManager[str]:
    """Return a server with these handlers, as a block with its address."""
    return listening(lambda server: server.add_generic_rpc_handlers(handlers), options=options)


@contextmanager
def serving(
    files: Files | None = None,
    *,
    service: str = "evil.Evil",
    garbage: bool = False,
    options: Sequence[tuple[str, int]] = (),
) -> Iterator[str]:
    """Yield the address of a server with this reflection; with `garbage`, no answer parses."""

    def reflect(requests, context):
        for raw in requests:
            if garbage:
                yield b"\xff\xff\xff\xff"
                continue
            asked = ServerReflectionRequest.FromString(raw)
            answer = ServerReflectionResponse()
            if asked.HasField("list_services"):
                listed = ListServiceResponse(service=[ServiceResponse(name=service)])
                answer.list_services_response.CopyFrom(listed)
            else:
                assert files is not None
                described = [each.SerializeToString() for each in files(asked.file_by_filename)]
                answer.file_descriptor_response.CopyFrom(
                    FileDescriptorResponse(file_descriptor_proto=described)
                )
            yield answer.SerializeToString()

    class Everything(grpc.GenericRpcHandler):
        def service(self, details):
            if details.method.endswith("ServerReflectionInfo"):
                return grpc.stream_stream_rpc_method_handler(reflect)
            answer = b"\xff\xff\xff\xff" if garbage else b""
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)

    with answering(Everything(), options=options) as address:
        yield address
