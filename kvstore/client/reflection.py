"""The methods of any service, by server reflection, in descriptor sets or in .proto files.

Reflection is gRPC's own service grpc.reflection.v1 (or v1alpha), with which a server describes
itself. A descriptor set is what `protoc --include_imports --descriptor_set_out=FILE` writes.
"""

import difflib
import importlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto as FileProto
from google.protobuf.message import DecodeError, Message
from grpc_reflection.v1alpha import reflection_pb2

from kvstore.client.channel import NOT_REACHED, Target
from kvstore.client.errors import ServerNotReached, hint_of
from kvstore.client.workload import MethodCalls
from kvstore.numbers import count, size

Metadata = Sequence[tuple[str, str | bytes]]
Parsed = TypeVar("Parsed", bound=Message)

ANSWER_S, ALL_S = 5.0, 20.0
"""Seconds to wait for each answer of the reflection service, and for all answers about a type."""
MOST_FILES, MOST_BYTES = 5000, 64 * 1024 * 1024
"""Files that describe a type, with all that they import, and their size together, at most."""

_VERSIONS: Final = ("v1", "v1alpha")
"""Versions of the reflection service, newest first. Their messages are the same on the wire."""

_WITHOUT_REFLECTION: Final = (
    "give its descriptors with --descriptors FILE, as `protoc --include_imports"
    " --descriptor_set_out=FILE x.proto` writes them, or its sources with --proto FILE"
)
_WELL_KNOWN: Final = (
    "any",
    "api",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
"""Files of google/protobuf that every service may import, and protobuf brings along."""
_LIST, _VALUE = "google.protobuf.ListValue", "google.protobuf.Value"
_WRITTEN: Final = {
    _LIST: '[1, "a"]',
    _VALUE: "any JSON value",
    "google.protobuf.Timestamp": '"2026-01-02T03:04:05Z"',
    "google.protobuf.Duration": '"1.5s"',
    "google.protobuf.FieldMask": '"user.name,photo"',
    "google.protobuf.StringValue": '"text"',
    "google.protobuf.BytesValue": '"YQ==" (base64)',
    "google.protobuf.BoolValue": "true",
    **{
        f"google.protobuf.{kind}Value": "7"
        for kind in ("Int32", "UInt32", "Int64", "UInt64", "Float", "Double")
    },
}
"""Messages of protobuf that are no object in JSON, and how they are written."""
_NO_ACCESS: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


class MethodNotFound(ValueError):
    """The server, or the descriptor set, does not describe the method."""


class BadRequest(ValueError):
    """A request does not fit the method."""


class Request(NamedTuple):
    """A request as JSON, and where it was written."""

    value: Any
    where: str
    """For messages about it, such as "orders.jsonl, line 3"."""


class Descriptions:
    """The files that describe services. Types that are asked for later can still be added.

    `find` returns the files with a symbol, none if it is unknown.
    """

    def __init__(
        self,
        files: Iterable[FileProto],
        services: Callable[[], list[str]],
        find: Callable[[str], Iterable[FileProto]] = lambda symbol: (),
    ) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        self.notes: list[str] = []
        """What is wrong with the descriptions, although they can be used."""
        self._services = services
        self._find = find
        self._files: dict[str, FileProto] = {}
        self.add(files)

    def add(self, files: Iterable[FileProto]) -> None:
        """Add files, each after the files that it imports. Raises `MethodNotFound`."""
        waiting = {each.name: each for each in files if each.name not in self._files}
        for name in list(waiting):
            self._add(name, waiting)

    def needs(self, symbol: str) -> bool:
        """Return whether a type is described now; look for its file if it was not."""
        if not self._describes(symbol):
            bundled = _of_protobuf(lambda pool: pool.FindFileContainingSymbol(symbol))
            self.add([bundled] if bundled is not None else self._find(symbol))
        return self._describes(symbol)

    def _describes(self, symbol: str) -> bool:
        try:
            self.pool.FindFileContainingSymbol(symbol)
        except KeyError:
            return False
        return True

    def methods(self) -> list[str]:
        """Return the names of all methods, such as "pkg.Service/Method"."""
        names = []
        for service in self._services():
            if service.startswith("grpc.reflection."):
                continue
            if self.needs(service):
                described = self.pool.FindServiceByName(service)
                names += [f"{service}/{each.name}" for each in described.methods]
            else:
                names.append(f"{service}/? (the server does not describe it)")
        return names

    def method(self, name: str) -> "Method":
        """Return the method "pkg.Service/Method". Raises `MethodNotFound`."""
        service, method = _parts(name)
        if not self.needs(service):
            names = self._services()
            if service in names:  # so does the health service of gRPC's C++ library
                raise MethodNotFound(
                    f"the server lists {service} and does not describe it: {_WITHOUT_REFLECTION}"
                )
            raise _unknown(f"no service {service} is described", service, names)
        described = self.pool.FindServiceByName(service)
        if method not in described.methods_by_name:
            raise _unknown(f"{service} has no method {method}", method, described.methods_by_name)
        return Method(described.methods_by_name[method], self)

    def serialized(self) -> bytes:
        """Return all files as a descriptor set, each after the files that it imports."""
        files = self._files.values()
        return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())

    @classmethod
    def of_set(cls, serialized: bytes) -> "Descriptions":
        """Return what a descriptor set describes. Raises `DecodeError`."""
        files = list(descriptor_pb2.FileDescriptorSet.FromString(serialized).file)
        names = [f"{each.package}.{s.name}".lstrip(".") for each in files for s in each.service]
        return cls(files, lambda: names)

    def _add(self, name: str, waiting: dict[str, FileProto]) -> None:
        """Add a file after those that it imports, however deep these are nested."""
        begun: dict[str, FileProto] = {}
        path = [name]
        while path:
            name = path[-1]
            if name in begun:
                self._put(begun.pop(name))
            elif name not in self._files and (file := self._waits(name, waiting)):
                begun[name] = file
                path += [each for each in file.dependency if each not in begun]
                continue
            path.pop()

    def _waits(self, name: str, waiting: dict[str, FileProto]) -> FileProto | None:
        file = waiting.pop(name, None) or _of_protobuf(lambda pool: pool.FindFileByName(name))
        if file is None:
            return None
        if file.syntax not in ("", "proto2", "proto3", "editions"):  # as Go writes a placeholder
            self.notes.append(
                f"the server describes the import {name} by a placeholder without types, as it"
                " does for a file that it knows under another path: if a message needs them,"
                f" {_WITHOUT_REFLECTION}"
            )
            return None
        return file

    def _put(self, file: FileProto) -> None:
        lacking = [needed for needed in file.dependency if needed not in self._files]
        for version in (file, _without(file, lacking)):
            try:
                self.pool.AddSerializedFile(version.SerializeToString())
            except TypeError as wrong:
                why = str(wrong).rpartition("descriptor pool: ")[2]
            else:
                self._files[file.name] = version
                return
        raise MethodNotFound(
            f"the description of {file.name} is not complete ({why}):"
            f" {'; '.join(self.notes) or 'a descriptor set needs --include_imports'}"
        )


def _without(file: FileProto, lacking: Iterable[str]) -> FileProto:
    """Return the file without some of its imports: options often need no type of theirs."""
    bare = FileProto()
    bare.CopyFrom(file)
    del bare.dependency[:], bare.public_dependency[:], bare.weak_dependency[:]
    bare.dependency.extend(name for name in file.dependency if name not in set(lacking))
    return bare


def _of_protobuf(find: Callable[[descriptor_pool.DescriptorPool], Any]) -> FileProto | None:
    """Return a file that protobuf brings along, as some servers leave it out; None for others."""
    for name in _WELL_KNOWN:
        importlib.import_module(f"google.protobuf.{name}_pb2")
    file = FileProto()
    try:
        find(descriptor_pool.Default()).CopyToProto(file)
    except KeyError:
        return None
    return file if file.name.startswith("google/protobuf/") else None


class Method(NamedTuple):
    """A method and the types of its messages."""

    descriptor: MethodDescriptor
    described_by: Descriptions

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

        Each is the JSON of a message, and a list of them where the method takes a stream; or a
        `Request`, which has one. Raises `BadRequest` for a request that does not fit, and
        `ValueError` without one.
        """
        messages = []
        for number, each in enumerate(requests, start=1):
            request = each if isinstance(each, Request) else Request(each, f"request {number}")
            messages.append(tuple(map(self.encoded, self.messages_of(request))))
        return MethodCalls(method=self.name, shape=self.shape, requests=tuple(messages))

    def messages_of(self, request: Request) -> list[Request]:
        """Return each message of a call: several where the method takes a stream of them."""
        value, kind = request.value, self.descriptor.input_type.full_name
        if isinstance(value, list) and self.descriptor.client_streaming:
            return [Request(each, request.where) for each in value]
        if isinstance(value, list) and kind not in (_LIST, _VALUE):
            raise BadRequest(
                f"{request.where}: {self.name} takes one request message per call, got a list"
            )
        return [request]

    def encoded(self, request: Request) -> bytes:
        """Return the message of a request. Raises `BadRequest`."""
        message = self.message(request)
        if missing := message.FindInitializationErrors():
            raise BadRequest(
                f"{request.where}: missing {', '.join(missing)}, which"
                f" {self.descriptor.input_type.full_name} requires"
            )
        return bytes(message.SerializeToString())

    def message(self, request: Request) -> Any:
        """Return the message of a request, which may lack required fields. Raises `BadRequest`."""
        kind, value = self.descriptor.input_type, request.value
        message: Message = message_factory.GetMessageClass(kind)()
        written_as = _WRITTEN.get(kind.full_name)
        if written_as is None and not isinstance(value, Mapping):
            raise BadRequest(
                f"{request.where}: a request must be a JSON object for {kind.full_name}, got"
                f" {str(value)[:60]}"
            )
        if written_as and kind.full_name != _VALUE:
            if value == {}:
                return message
            if isinstance(value, Mapping) and set(value) == {"value"}:  # as the type is declared
                value = value["value"]
            if value is None:
                raise BadRequest(_not_written_so(request, kind.full_name, "got null"))
        for symbol in sorted(_types_of_any(value)):
            self.described_by.needs(symbol)
        try:
            json_format.ParseDict(value, message, descriptor_pool=self.described_by.pool)
        except (json_format.ParseError, TypeError, ValueError) as wrong:
            fields = ", ".join(f"{each.name} ({_type(each)})" for each in kind.fields)
            why = str(wrong).partition(" Available Fields")[0].rstrip(".")
            if written_as:
                raise BadRequest(_not_written_so(request, kind.full_name, why)) from None
            raise BadRequest(
                f"{request.where} does not fit {kind.full_name}: {why}. Its fields are:"
                f" {fields or 'none'}"
            ) from None
        return message


def _not_written_so(request: Request, kind: str, why: str) -> str:
    return f"{request.where}: {kind} is written in JSON as {_WRITTEN[kind]}: {why}"


def _types_of_any(value: Any) -> Iterator[str]:
    """Yield the names of the types that a request puts into google.protobuf.Any."""
    if isinstance(value, Mapping):
        if isinstance(url := value.get("@type"), str):
            yield url.rpartition("/")[2]
        value = value.values()
    elif not isinstance(value, list):
        return
    for each in value:
        yield from _types_of_any(each)


_SCALARS: Final[dict[int, str]] = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()
}
"""Names of the types of a field as a .proto file writes them, by their number."""


def _type(field: Any) -> str:
    kind = field.message_type or field.enum_type
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return f"map<{_type(key)}, {_type(value)}>"
    return kind.full_name if kind else _SCALARS[field.type]


def by_reflection(target: Target, metadata: Metadata = ()) -> Descriptions:
    """Return what a server says of itself; `metadata` is sent with each request for it.

    Raises:
        ServerNotReached: the server does not answer.
        MethodNotFound: the server has no reflection, or does not permit it.
    """
    refused: dict[str, grpc.RpcError] = {}
    for version in _VERSIONS:
        try:
            with target.channel() as channel:
                names = _Reflection(channel, version, metadata).services()
        except grpc.RpcError as error:
            refused[version] = error
            continue
        except _NoReflection:
            continue

        return _described(target, version, metadata, names)
    raise _no_reflection(target, refused)


def _described(target: Target, version: str, metadata: Metadata, names: list[str]) -> Descriptions:
    def find(symbol: str) -> list[FileProto]:
        with target.channel() as channel:
            server = _Reflection(channel, version, metadata)
            try:
                files = server.files(symbol)
            except grpc.RpcError as error:
                raise _no_reflection(target, {version: error}) from None
        described.notes += server.notes
        return files

    described = Descriptions([], lambda: names, find)
    return described


def _no_reflection(target: Target, refused: Mapping[str, Any]) -> Exception:
    replies = "; ".join(
        f"{version}: {error.code().name}: {error.details()}" for version, error in refused.items()
    )
    codes = [error.code() for error in refused.values()]
    if (known := hint_of(replies)) and not all(code in NOT_REACHED for code in codes):
        return MethodNotFound(
            f"the server at {target.address} does not describe itself ({replies}): {known}. Or"
            f" {_WITHOUT_REFLECTION}"
        )
    if any(code in _NO_ACCESS for code in codes):
        return MethodNotFound(
            f"the reflection of the server at {target.address} wants credentials ({replies}): give"
            " them with --metadata, which goes to reflection too, or"
            f" {_WITHOUT_REFLECTION}"
        )
    if codes and all(code in NOT_REACHED for code in codes):
        return ServerNotReached(
            f"the server does not answer ({replies})" + f": {known}" * bool(known)
        )
    return MethodNotFound(
        f"the server at {target.address} has no reflection ({replies or 'an empty answer'}), so its"
        f" methods are not known. Enable reflection in the server, or {_WITHOUT_REFLECTION}"
    )


def in_files(paths: Iterable[str | Path]) -> Descriptions:
    """Return what descriptor sets describe.

    Raises `OSError` for a file that cannot be read, `MethodNotFound` for one that is none.
    """
    whole = b""
    for path in paths:
        one = Path(path).read_bytes()
        try:
            Descriptions.of_set(one)
        except DecodeError:
            raise MethodNotFound(
                f"{path} is not a descriptor set: write one with"
                " `protoc --include_imports --descriptor_set_out=FILE x.proto`"
            ) from None
        whole += one  # sets that follow one another are one set
    return Descriptions.of_set(whole)


def in_sources(paths: Sequence[str], import_paths: Sequence[str] = ()) -> Descriptions:
    """Return what .proto files describe; imports are looked for in `import_paths`.

    Raises `MethodNotFound` with the compiler's words, or if there is no compiler.
    """
    try:
        from grpc_tools import protoc
    except ImportError:
        raise MethodNotFound(
            "to read .proto files, a compiler is needed: pip install grpcio-tools. Or"
            f" {_WITHOUT_REFLECTION.partition(', or')[0]}"
        ) from None
    for path in paths:
        Path(path).read_bytes()  # its own error says what is wrong
    bundled = Path(protoc.__file__).parent / "_proto"
    parents = [str(Path(path).parent) for path in paths]
    folders = [*import_paths, *_roots_of_imports(paths), *parents, str(bundled)]
    with tempfile.TemporaryDirectory(prefix="kvstore-proto-") as folder:
        descriptor_set = Path(folder, "set.binpb")
        status, errors = _compiled(
            [
                *(f"-I{each or '.'}" for each in dict.fromkeys(folders)),
                "--include_imports",
                f"--descriptor_set_out={descriptor_set}",
                *paths,
            ]
        )
        if status:
            raise MethodNotFound(
                f"the .proto files cannot be compiled: {errors.strip()}. Give the folders of their"
                " imports with --import-path"
            )
        return in_files([descriptor_set])


def _roots_of_imports(paths: Sequence[str]) -> list[str]:
    """Return the folders, above the files, from which their imports are named."""
    above = {each: None for path in paths for each in Path(path).absolute().parents}
    text = "".join(Path(path).read_text("utf-8", errors="replace") for path in paths)
    imports = re.findall(r'^\s*import\s+(?:\w+\s+)?["\']([^"\']+)["\']', text, re.MULTILINE)
    return [str(each) for each in above if any((each / name).is_file() for name in imports)]


def _compiled(arguments: list[str]) -> tuple[int, str]:
    """Run protoc in a process of its own, because it writes its errors itself."""
    done = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *arguments], capture_output=True, text=True
    )
    return done.returncode, done.stderr


def _parts(name: str) -> tuple[str, str]:
    service, _, method = name.strip("/").replace(":", "/").rpartition("/")
    if not service:  # as gRPC's own tools, allow pkg.Service.Method
        service, _, method = name.rpartition(".")
    if not service or not method:
        raise MethodNotFound(f"a method is pkg.Service/Method, got {name!r}")
    return service, method


def _unknown(what: str, name: str, known: Iterable[str]) -> MethodNotFound:
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known) or 'none'}"
    return MethodNotFound(f"{what}: {hint}")


class _NoReflection(Exception):
    """The server gave an empty answer."""


class _Reflection:
    """The reflection service of a server."""

    def __init__(self, channel: grpc.Channel, version: str, metadata: Metadata) -> None:
        self.notes: list[str] = []
        self._metadata = tuple(metadata) or None
        self._ask = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        )

    def files(self, symbol: str) -> list[FileProto]:
        """Return the file with this symbol and all files that it imports; none if unknown.

        Raises `MethodNotFound` for a server that does not come to an end.
        """
        files: dict[str, FileProto] = {}
        lacking: set[str] = set()
        waiting: set[str] = set()
        missing = [{"file_containing_symbol": symbol}]
        ends_s, read_bytes = time.monotonic() + ALL_S, 0
        while missing:
            if (
                len(files) + len(lacking) > MOST_FILES
                or read_bytes > MOST_BYTES
                or time.monotonic() > ends_s
            ):
                raise MethodNotFound(
                    f"the reflection of the server does not come to an end: {symbol} imports more"
                    f" than {count(len(files) + len(lacking), 'file')} ({size(read_bytes)}):"
                    f" {_WITHOUT_REFLECTION}"
                )
            asked = missing.pop()
            name = asked.get("file_by_filename")
            reply = self._reply(asked)
            new: set[str] = set()
            for raw in reply.file_descriptor_response.file_descriptor_proto:
                file = _parsed(FileProto, raw)
                files[file.name] = file
                new |= {file.name, *file.dependency}
                read_bytes += len(raw)
            if name is not None and name not in files:
                lacking.add(name)
                if not name.startswith("google/protobuf/"):  # protobuf brings these
                    self.notes.append(
                        f"the server does not describe {name}, which its service imports: if a"
                        f" message needs its types, {_WITHOUT_REFLECTION}"
                    )
            waiting |= new
            waiting -= files.keys() | lacking
            missing = [{"file_by_filename": min(waiting)}] if waiting else []
        return list(files.values())

    def services(self) -> list[str]:
        """Return the full names of all services."""
        reply = self._reply({"list_services": ""})
        return [each.name for each in reply.list_services_response.service]

    def _reply(self, request: dict[str, str]) -> reflection_pb2.ServerReflectionResponse:
        message = reflection_pb2.ServerReflectionRequest(**request)
        replies = self._ask(
            iter([message]), timeout=ANSWER_S, wait_for_ready=False, metadata=self._metadata
        )
        for raw in replies:
            return _parsed(reflection_pb2.ServerReflectionResponse, raw)
        raise _NoReflection


def _parsed(kind: Callable[[], Parsed], raw: bytes) -> Parsed:
    """Return a message of the reflection service. Raises `MethodNotFound` if it is none."""
    message = kind()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        raise MethodNotFound(
            "the reflection of the server answers with bytes that are not its message:"
            f" {_WITHOUT_REFLECTION}"
        ) from None
    return message
