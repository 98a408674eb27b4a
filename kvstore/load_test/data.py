"""Data that differs from call to call: templates such as {{count}} in requests and metadata."""

import csv
import io
import itertools
import random
import re
import string
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import message_factory

from kvstore.client.reflection import BadRequest, Descriptions, Metadata, Method, Request
from kvstore.client.workload import Sent
from kvstore.load_test.inputs import requests_of, text_of

_TEMPLATE: Final = re.compile(r"\{\{\s*([a-z_]+)(?:\.([^}\s()]+)|\(([^)]*)\))?\s*\}\}")
SYNTAX: Final = (
    "{{count}} or {{count(1000)}} (0, 1, 2, ... or from 1000 on), {{uuid}}, {{random(1, 100)}},"
    " {{text(16)}} (letters and digits), {{now}} (seconds since 1970), {{row.NAME}} (of --data)"
)

Row = Mapping[str, Any]
Make = Callable[[Row], Any]


def rows_of(path: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file with a header, or the objects of a JSON file.

    Raises `OSError` and `BadRequest` naming the file and the line.
    """
    if path.lower().endswith((".csv", ".tsv")):
        tab = "\t" if path.lower().endswith(".tsv") else ","
        reader = csv.DictReader(io.StringIO(text_of(path), newline=""), delimiter=tab)
        rows = []
        for row in reader:
            if None in row or None in row.values():
                raise BadRequest(
                    f"{path}, line {reader.line_num}: {len(reader.fieldnames or ())} columns are"
                    f" named in the first line, and this one has another number"
                )
            rows.append(dict(row))
        if not rows:
            raise BadRequest(f"{path} has no row below its header")
        return rows
    requests = requests_of(path)
    for each in requests:
        if not isinstance(each.value, dict):
            raise BadRequest(f"{each.where}: a row is a JSON object, got {str(each.value)[:60]}")
    return [each.value for each in requests]


def has_templates(value: Any) -> bool:
    """Return whether a JSON value has a template in one of its texts."""
    if isinstance(value, str):
        return "{{" in value
    if isinstance(value, Mapping):
        return any(has_templates(each) for each in value.values())
    return isinstance(value, list) and any(map(has_templates, value))


class DataPerCall:
    """Requests and metadata with templates, filled for each call; safe for several threads.

    Counters go on from run to run. Fields of a request without a template are encoded once. Raises
    `BadRequest` for a template that does not exist, and for a first call that does not fit.
    """

    def __init__(
        self,
        method: Method,
        requests: Sequence[Request],
        metadata: Metadata,
        rows: Sequence[Row] = (),
    ) -> None:
        self._method = method
        self._requests = list(requests)
        self._metadata = tuple(metadata)
        self._rows = list(rows)
        self._begin()
        self.first = self()
        """The messages and the metadata of a first call, before any call is made."""
        kind = message_factory.GetMessageClass(method.descriptor.input_type)
        for message in self.first[0]:
            if missing := kind.FromString(message).FindInitializationErrors():
                raise BadRequest(f"{requests[0].where}: missing {', '.join(missing)}")
        self._begin()  # so that the first call of the test has the first row and number

    def __call__(self) -> tuple[tuple[bytes, ...], Sent]:
        """Return the messages and the metadata of the next call."""
        row = next(self._next_row)
        request, metadata = next(self._next_request), self._make_metadata
        return (
            tuple(each(row) for each in request),
            tuple((name, str(make(row)) if callable(make) else make) for name, make in metadata),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what another process needs; descriptors cannot be sent."""
        described = self._method.described_by.serialized()
        return _rebuilt, (
            described,
            self._method.name,
            self._requests,
            self._metadata,
            self._rows,
        )

    def _begin(self) -> None:
        self._next_row: Iterator[Row] = itertools.cycle(self._rows or [{}])
        self._next_request = itertools.cycle([self._message(each) for each in self._requests])
        self._make_metadata: list[tuple[str, Any]] = [
            (name, self._filled(value, "--metadata") if has_templates(value) else value)
            for name, value in self._metadata
        ]

    def _message(self, request: Request) -> list[Callable[[Row], bytes]]:
        return [self._encoder(each) for each in self._method.messages_of(request)]

    def _encoder(self, request: Request) -> Callable[[Row], bytes]:
        """Return what encodes a request. In protobuf, parts of a message add up to the message."""
        method = self._method
        if not isinstance(request.value, Mapping):
            value = self._filled(request.value, request.where)
            return lambda row: method.encoded(Request(value(row), request.where))
        fixed = {name: each for name, each in request.value.items() if not has_templates(each)}
        changing = {
            name: self._filled(each, request.where)
            for name, each in request.value.items()
            if name not in fixed
        }
        if not changing:
            whole = method.encoded(request)
            return lambda row: whole
        first = method.message(Request(fixed, request.where)).SerializePartialToString()

        def encoded(row: Row) -> bytes:
            drawn = {name: make(row) for name, make in changing.items()}
            rest = method.message(Request(drawn, request.where))
            return bytes(first + rest.SerializePartialToString())

        return encoded

    def _filled(self, value: Any, where: str) -> Make:
        """Return what makes a JSON value with its templates filled."""
        if isinstance(value, Mapping):
            members = {name: self._filled(each, where) for name, each in value.items()}
            return lambda row: {name: make(row) for name, make in members.items()}
        if isinstance(value, list):
            entries = [self._filled(each, where) for each in value]
            return lambda row: [make(row) for make in entries]
        if not has_templates(value):
            return lambda row: value
        parts: list[Make] = []
        at = 0
        for match in _TEMPLATE.finditer(value):
            if match.start() > at:
                parts.append(_constant(value[at : match.start()]))
            parts.append(self._template(match, where))
            at = match.end()
        rest = value[at:]
        if "{{" in rest or not parts:
            raise BadRequest(f"{where}: {value!r} is no template: there are {SYNTAX}")
        if rest:
            parts.append(_constant(rest))
        if len(parts) == 1:
            return parts[0]  # a value of a row keeps its type
        return lambda row: "".join(str(make(row)) for make in parts)

    def _template(self, match: re.Match[str], where: str) -> Make:
        name, column, argument = match.groups()
        numbers = [int(each) for each in re.findall(r"-?\d+", argument or "")]
        if name == "row" and column:
            self._check_column(column, where)
            return lambda row: row[column]
        if name == "count" and column is None and len(numbers) < 2:
            counted = itertools.count(*numbers)
            return lambda row: str(next(counted))
        if name == "uuid" and not numbers and not column:
            return lambda row: str(uuid.uuid4())
        if name == "now" and not numbers and not column:
            return lambda row: str(time.time())
        draw = random.Random()
        if name == "random" and len(numbers) == 2 and numbers[0] <= numbers[1]:
            return lambda row: str(draw.randint(numbers[0], numbers[1]))
        if name == "text" and len(numbers) == 1 and numbers[0] >= 0:
            letters = string.ascii_letters + string.digits
            return lambda row: "".join(draw.choices(letters, k=numbers[0]))
        raise BadRequest(f"{where}: {match[0]} is no template: there are {SYNTAX}")

    def _check_column(self, column: str, where: str) -> None:
        if not self._rows:
            raise BadRequest(f"{where}: {{{{row.{column}}}}} needs --data FILE")
        for number, row in enumerate(self._rows, start=1):
            if column not in row:
                raise BadRequest(
                    f"{where}: row {number} of --data has no {column}: it has"
                    f" {', '.join(map(str, row)) or 'nothing'}"
                )


def _constant(text: str) -> Make:
    return lambda row: text


def _rebuilt(described: bytes, name: str, *arguments: Any) -> DataPerCall:
    return DataPerCall(Descriptions.of_set(described).method(name), *arguments)
