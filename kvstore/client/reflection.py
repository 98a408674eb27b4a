"""Find a method of any service, by server reflection or in a descriptor set; requests from JSON.

Reflection is gRPC's own service grpc.reflection.v1 (or v1alpha), with which a server describes
itself. A descriptor set is what `protoc --include_imports --descriptor_set_out=FILE` writes.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2

from kvstore.client.channel import NOT_REACHED, Target
from kvstore.client.errors import ServerNotReached
from kvstore.client.workload import MethodCalls

ANSWER_S: Final = 5.0
"""Seconds to wait for each answer of the reflection service."""

_VERSIONS: Final = ("v1", "v1alpha")
"""Versions of the reflection service, newest first. Their messages are the same on the wire."""

_WITHOUT_REFLECTION: Final = (
    "give its descriptors with --descriptors FILE, as `protoc --include_imports"
    " --descriptor_set_out=FILE x.proto` writes them"
)


class MethodNotFound(ValueError):
    """The server, or the descriptor set, does not describe the method."""


class BadRequest(ValueError):
    """A request does not fit the method."""


class Method(NamedTuple):
    """A method and the types of its messages."""

    descriptor: MethodDescriptor

    @property
    def name(self) -> str:
        """The full name, such as "pkg.Service/Method"."""
        return f"{self.descriptor.containing_service.full_name}/{self.descriptor.name}"

    @property
    def shape(self) -> str:
        """One of `workload.SHAPES`."""
        sends, answers = self.descriptor.client_streaming, self.descriptor.server_streaming
        return f"{'stream' if sends else 'unary'}_{'stream' if answers else 'unary'}"

    def calls(self, requests: Iterable[Any]) -> MethodCalls:
        """Return calls with these requests in rotation.

        Each request is a JSON object, and a list of objects where the method takes a stream. Raises
        `BadRequest` for a request that does not fit, and `ValueError` without one.
        """
        messages = []
        for number, request in enumerate(requests, start=1):
            stream = request if isinstance(request, list) else [request]
            messages.append(tuple(self._encoded(each, number) for each in stream))
        return MethodCalls(method=self.name, shape=self.shape, requests=tuple(messages))

    def _encoded(self, request: Any, number: int) -> bytes:
        kind = self.descriptor.input_type
        if not isinstance(request, Mapping):
            raise BadRequest(
                f"request {number} must be a JSON object for {kind.full_name}, got"
                f" {json.dumps(request)[:60]}"
            )
        message = message_factory.GetMessageClass(kind)()
        try:
            json_format.ParseDict(dict(request), message)
        except (json_format.ParseError, TypeError, ValueError) as wrong:
            fields = ", ".join(f"{each.name} ({_type(each)})" for each in kind.fields)
            why = str(wrong).rstrip(".")  # some of protobuf's sentences end
            raise BadRequest(
                f"request {number} does not fit {kind.full_name}: {why}. Its fields are:"
                f" {fields or 'none'}"
            ) from None
        return bytes(message.SerializeToString())


_SCALARS: Final[dict[int, str]] = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
"""Names of the types of a field as a .proto file writes them, by their number."""


def _type(field: Any) -> str:
    kind = field.message_type or field.enum_type
    return kind.full_name if kind else _SCALARS[field.type]


def from_text(text: str) -> list[Any]:
    """Return the requests in the text of a file: one JSON value in each line that is not empty.

    Raises `BadRequest` with the number of the line that is not JSON.
    """
    requests = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                requests.append(json.loads(line))
            except json.JSONDecodeError as wrong:
                raise BadRequest(f"line {number} of the requests is not JSON: {wrong}") from None
    return requests


def method_by_reflection(target: Target, name: str) -> Method:
    """Return the method "pkg.Service/Method" as the server describes it.

    Raises:
        ServerNotReached: the server does not answer.
        MethodNotFound: the server has no reflection, or no such service or method.
    """
    service, method = _parts(name)
    for version in _VERSIONS:
        with target.channel() as channel:
            server = _Reflection(channel, version)
            try:
                return _method(server.files(service), service, method, server.services)
            except _NoReflection as none:
                why = none
    raise MethodNotFound(
        f"the server at {target.address} has no reflection ({why}), so its methods are not known."
        f" Enable reflection in the server, or {_WITHOUT_REFLECTION}"
    )


def method_in_file(path: str | Path, name: str) -> Method:
    """Return the method "pkg.Service/Method" as a descriptor set describes it.

    Raises `OSError` for a file that cannot be read, `MethodNotFound` for one that is no descriptor
    set or does not have the method.
    """
    service, method = _parts(name)
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(path).read_bytes()).file
    except DecodeError:
        raise MethodNotFound(
            f"{path} is not a descriptor set: write one with"
            " `protoc --include_imports --descriptor_set_out=FILE x.proto`"
        ) from None
    names = [f"{each.package}.{s.name}".lstrip(".") for each in files for s in each.service]
    return _method(list(files), service, method, lambda: names)


def _parts(name: str) -> tuple[str, str]:
    service, _, method = name.strip("/").replace(":", "/").rpartition("/")
    if not service:  # as gRPC's own tools, allow pkg.Service.Method
        service, _, method = name.rpartition(".")
    if not service or not method:
        raise MethodNotFound(f"a method is pkg.Service/Method, got {name!r}")
    return service, method


def _method(
    files: list[descriptor_pb2.FileDescriptorProto], service: str, method: str, services: Any
) -> Method:
    pool = descriptor_pool.DescriptorPool()
    waiting = {each.name: each for each in files}
    for name in list(waiting):
        _add(name, waiting, pool)
    try:
        described = pool.FindServiceByName(service)
    except KeyError:
        names = list(services())
        if service in names:  # so does the health service of gRPC's C++ library
            raise MethodNotFound(
                f"the server lists {service} and does not describe it: {_WITHOUT_REFLECTION}"
            ) from None
        raise _unknown(f"no service {service} is described", service, names) from None
    if method not in described.methods_by_name:
        raise _unknown(f"{service} has no method {method}", method, described.methods_by_name)
    return Method(described.methods_by_name[method])


def _add(
    name: str,
    waiting: dict[str, descriptor_pb2.FileDescriptorProto],
    pool: descriptor_pool.DescriptorPool,
) -> None:
    """Add a file to the pool after the files that it imports."""
    file = waiting.pop(name, None)
    if file is None:
        return
    for needed in file.dependency:
        _add(needed, waiting, pool)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except TypeError as wrong:
        raise MethodNotFound(
            f"the description of {name} is not complete ({wrong}): a descriptor set needs"
            " --include_imports"
        ) from None


def _unknown(what: str, name: str, known: Iterable[str]) -> MethodNotFound:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known) or 'none'}"
    return MethodNotFound(f"{what}: {hint}")


class _NoReflection(Exception):
    """The server does not have this version of the reflection service."""


class _Reflection:
    """The reflection service of a server."""

    def __init__(self, channel: grpc.Channel, version: str) -> None:
        self._ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )

    def files(self, symbol: str) -> list[descriptor_pb2.FileDescriptorProto]:
        """Return the file with this symbol and all files that it imports; none if unknown."""
        found: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        missing = [{"file_containing_symbol": symbol}]
        while missing:
            for raw in self._answers(missing.pop()):
                file = descriptor_pb2.FileDescriptorProto.FromString(raw)
                found[file.name] = file
            needed = {name for file in found.values() for name in file.dependency} - set(found)
            missing = [{"file_by_filename": name} for name in sorted(needed)]
        return list(found.values())

    def services(self) -> list[str]:
        """Return the full names of all services."""
        reply = self._reply({"list_services": ""})
        return [each.name for each in reply.list_services_response.service]

    def _answers(self, request: dict[str, str]) -> Iterator[bytes]:
        reply = self._reply(request)
        files = reply.file_descriptor_response.file_descriptor_proto
        if "file_by_filename" in request and not files:
            raise MethodNotFound(
                f"the server does not describe {request['file_by_filename']}, which its service"
                " imports: give its descriptors with --descriptors FILE"
            )
        yield from files

    def _reply(self, request: dict[str, str]) -> reflection_pb2.ServerReflectionResponse:
        message = reflection_pb2.ServerReflectionRequest(**request)
        try:
            for reply in self._ask(iter([message]), timeout=ANSWER_S, wait_for_ready=False):
                return reply
        except grpc.RpcError as error:
            if error.code() in NOT_REACHED:
                raise ServerNotReached(
                    f"the server does not answer ({error.code().name}: {error.details()})"
                ) from None
            raise _NoReflection(f"{error.code().name}: {error.details()}") from None
        raise _NoReflection("an empty answer")
