"""Checks of replies: --check 'text == "ok"' looks at each reply and counts the wrong ones."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from kvstore.client.reflection import BadRequest, Descriptions, Method

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda found, wanted: bool(found == wanted),
    "!=": lambda found, wanted: bool(found != wanted),
    ">=": lambda found, wanted: bool(found >= wanted),
    "<=": lambda found, wanted: bool(found <= wanted),
    ">": lambda found, wanted: bool(found > wanted),
    "<": lambda found, wanted: bool(found < wanted),
}
_CHECK: Final = re.compile(r"\s*([\w.]+)\s*(==|!=|>=|<=|>|<)\s*(.+?)\s*")


class Check:
    """Conditions on a reply, such as `text == "ok"` or `items.0.price > 0`.

    A condition names a field by its path and compares it with a JSON value. Raises `BadRequest` for
    another text, or for a field that the reply does not have.
    """

    def __init__(self, method: Method, conditions: Sequence[str]) -> None:
        self._name = method.name
        self._described = method.described_by.serialized()
        self._conditions = [_parsed(each, method) for each in conditions]
        self.wrong = 0
        """Replies that did not fulfil a condition."""
        self.first_wrong = ""
        """What was wrong with the first of them."""
        self._begin()

    def __call__(self, reply: bytes) -> bytes:
        """Look at a reply and return it unchanged."""
        try:
            message = self._reply_class.FromString(reply)
        except DecodeError:
            self._note("a reply cannot be decoded")
            return reply
        found = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True,
            descriptor_pool=self._pool,
        )  # fmt: skip
        for path, operator, wanted in self._conditions:
            value = _at(found, path)
            try:
                holds = _OPERATORS[operator](_comparable(value, wanted), wanted)
            except TypeError:
                holds = False
            if not holds:
                self._note(f"{path} is {json.dumps(value)[:60]}, and not {operator} {wanted!r}")
                break
        return reply

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; descriptors cannot be sent."""
        return {name: value for name, value in vars(self).items() if name not in _MADE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        described = Descriptions.of_set(self._described)
        kind = described.method(self._name).descriptor.output_type
        self._pool = described.pool
        self._reply_class = message_factory.GetMessageClass(kind)

    def _note(self, what: str) -> None:
        self.wrong += 1
        self.first_wrong = self.first_wrong or what


_MADE: Final = ("_pool", "_reply_class")


def _parsed(text: str, method: Method) -> tuple[str, str, Any]:
    found = _CHECK.fullmatch(text)
    try:
        assert found
        path, operator, wanted = found[1], found[2], json.loads(found[3])
    except (AssertionError, ValueError):
        raise BadRequest(
            f"--check is FIELD OPERATOR JSON, such as 'text == \"ok\"' or 'count > 0', got {text!r}"
        ) from None
    fields = method.descriptor.output_type.fields_by_name
    if path.split(".")[0] not in fields:
        raise BadRequest(
            f"--check: {method.descriptor.output_type.full_name} has no field {path!r}: there are"
            f" {', '.join(fields) or 'none'}"
        )
    return path, operator, wanted


def _at(found: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict):
            found = found.get(name)
        else:
            return None
    return found


def _comparable(value: Any, wanted: Any) -> Any:
    """Return a number for a text of digits, as which JSON of protobuf writes 64-bit numbers."""
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if number and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
