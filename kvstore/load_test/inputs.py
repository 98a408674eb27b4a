"""What users give a load test: requests and metadata as JSON, from the command line or files."""

import base64
import binascii
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kvstore.client.reflection import BadRequest, Metadata, Request

_SPACE: Final = re.compile(r"[ \t\r\n]*")
"""What JSON permits between two values. `str.splitlines` knows other ends of a line too."""


def text_of(path: str) -> str:
    """Return the text of a file, or of standard input for "-".

    A byte order mark says which encoding it has; without one, it is UTF-8 or one that has bytes
    of 0. Raises `OSError` and
    `BadRequest` with the name of the file and the line.
    """
    raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    encoding = json.detect_encoding(raw)
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as wrong:
        line = raw.count(b"\n", 0, wrong.start) + 1
        raise BadRequest(
            f"{_name(path)}, line {line}: the byte 0x{raw[wrong.start]:02x} is not {encoding}:"
            " save the file as UTF-8"
        ) from None


def requests_of(path: str) -> list[Request]:
    """Return the requests in a file: JSON values one after another, such as one in each line.

    A file with a single array has its members as requests. Raises `BadRequest` naming the file and
    the line.
    """
    name = _name(path)
    requests = _values(text_of(path), name)
    if not requests:
        raise BadRequest(f"{name} has no request: write one JSON value in each line")
    if len(requests) == 1 and isinstance(requests[0].value, list):
        members = requests[0].value
        if not members:
            raise BadRequest(f"{name} has an empty list and no request")
        return [Request(each, f"{name}, request {n}") for n, each in enumerate(members, start=1)]
    return requests


def json_requests(text: str) -> list[Request]:
    """Return the requests in the value of --json: JSON, @FILE, or - for standard input."""
    if text.startswith("@") or text == "-":
        return requests_of(text.removeprefix("@"))
    return [Request(value_of(text, "--json"), "request 1")]


def metadata_of(texts: Sequence[str]) -> Metadata:
    """Return metadata from NAME=VALUE, NAME=@FILE (the text of a file), or JSON.

    In JSON it is {"name": "value"}, several values in a list, or a list of pairs. Names are written
    in lower case, as HTTP/2 wants them. The values of a name that ends with -bin are base64. Raises
    `OSError`, and `BadRequest` naming what gRPC would not send.
    """
    return tuple(_entry(name, value) for each in texts for name, value in _pairs(each))


def _pairs(text: str) -> list[tuple[Any, Any]]:
    name, equals, value = text.partition("=")
    if equals and re.fullmatch(r"[\w.-]+", name):
        return [(name, text_of(value[1:]).strip() if value.startswith("@") else value)]
    pairs = value_of(text, "--metadata") if text.lstrip().startswith(("{", "[", "@")) else None
    if isinstance(pairs, Mapping):
        return [
            (name, each)
            for name, value in pairs.items()
            for each in (value if isinstance(value, list) else [value])
        ]
    if isinstance(pairs, list) and all(isinstance(each, list) and len(each) == 2 for each in pairs):
        return [(name, value) for name, value in pairs]
    raise BadRequest(
        '--metadata is NAME=VALUE, an object such as {"name": "value"}, or a list of pairs, got'
        f" {text[:60]}"
    )


def value_of(text: str, option: str) -> Any:
    """Return the one JSON value of an option, or of the file behind @. Raises `BadRequest`."""
    text, name = (text_of(text[1:]), _name(text[1:])) if text.startswith("@") else (text, option)
    values = _values(text, name, " In a shell, put it in quotes" if name == option else "")
    if len(values) != 1:
        raise BadRequest(f"{name} must have one JSON value, got {len(values)}")
    return values[0].value


def _entry(name: Any, value: Any) -> tuple[str, str | bytes]:
    name = str(name).lower()
    if not re.fullmatch(r"[0-9a-z_.-]+", name):
        raise BadRequest(f"--metadata: the name {name!r} must have letters, digits and -_. only")
    if name.startswith("grpc-"):
        raise BadRequest(f"--metadata: names with grpc- are for gRPC itself, got {name!r}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadRequest(
            f"--metadata: the value of {name!r} must be a text or a number, got {json.dumps(value)}"
        )
    text = str(value)
    if name.endswith("-bin"):
        try:
            return name, base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except binascii.Error:
            raise BadRequest(
                f"--metadata: the value of {name!r} must be base64, because its name ends with"
                f" -bin, got {text!r}"
            ) from None
    if not re.fullmatch(r"[\x20-\x7e]*", text):
        raise BadRequest(
            f"--metadata: the value of {name!r} must be printable ASCII, got {text!r}: give a name"
            " that ends with -bin and the value as base64"
        )
    return name, text


class _Refused(ValueError):
    """A value that Python's parser accepts and JSON does not have, or has twice."""


def _constant(name: str) -> Any:
    raise _Refused(f'{name} is not JSON: for a number field, write "{name}" in quotes')


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _Refused(f"the key {key!r} is there twice")
        members[key] = value
    return members


_decoder = json.JSONDecoder(parse_constant=_constant, object_pairs_hook=_once)


def _values(text: str, name: str, advice: str = "") -> list[Request]:
    """Return the JSON values in a text. Raises `BadRequest` with the line of a wrong one."""
    requests: list[Request] = []
    at = _end_of_space(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        where = name if name.startswith("--") else f"{name}, line {line}"
        try:
            value, at = _decoder.raw_decode(text, at)
        except json.JSONDecodeError as wrong:
            if text.startswith(("#", "//"), at):
                raise BadRequest(f"{where}: JSON has no comments: leave the line out") from None
            there = (
                f" in line {wrong.lineno}" if wrong.lineno != line else f" (column {wrong.colno})"
            )
            raise BadRequest(f"{where} is not JSON: {wrong.msg}{there}.{advice}") from None
        except _Refused as wrong:
            raise BadRequest(f"{where}: {wrong}") from None
        except RecursionError:
            raise BadRequest(f"{where}: the value is nested too deeply") from None
        requests.append(Request(value, where))
        at = _end_of_space(text, at)
    return requests


def _end_of_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _name(path: str) -> str:
    return "standard input" if path == "-" else path
