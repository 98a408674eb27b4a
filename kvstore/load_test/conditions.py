"""Conditions: --fail-if 'p99 > 50ms' on a run, and --check 'text == "ok"' on each reply."""

import json
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError

from kvstore.client.reflection import BadRequest, Method
from kvstore.load_test.findings import populations
from kvstore.load_test.options import UNITS_S
from kvstore.measure import Run
from kvstore.numbers import percent, rate, seconds

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION: Final = re.compile(
    r"\s*(throughput|errors|mean|p50|p90|p99|p99\.9)\s*(<=|>=|<|>)\s*([0-9.]+)\s*(%|[a-zµ]*)\s*"
)
_CHECK: Final = re.compile(r"\s*([\w.]+)\s*(==|!=|>=|<=|>|<)\s*(.+?)\s*")


class Condition(NamedTuple):
    """A condition under which a run fails, such as p99 > 0.05."""

    name: str
    operator: str
    limit: float
    """In seconds, as a share, or in calls per second."""

    def holds(self, run: Run) -> str:
        """Return what was found if the condition holds, else "". Without a call OK, it holds."""
        value = self._value(run)
        if value == value and not _OPERATORS[self.operator](value, self.limit):
            return ""
        write: Callable[[float], str] = seconds
        if self.name == "errors":
            write = percent
        elif self.name == "throughput":
            write = rate
        shown = write(value) if value == value else "not known, because no call ended OK"
        return f"{self.name} is {shown}, and {self.operator} {write(self.limit)} was to fail"

    def _value(self, run: Run) -> float:
        if self.name == "throughput":
            return run.throughput_per_s
        ok, *others = populations(run)
        if self.name == "errors":  # calls that were cut off are no failures of the service
            failed = sum(each.calls for each in others if each.name == "failed")
            return failed / (ok.calls + failed) if ok.calls + failed else float("nan")
        return ok.mean_s if self.name == "mean" else ok.latency[self.name].value_s


def condition_of(text: str) -> Condition:
    """Return the condition that a text says. Raises `ValueError` for another text."""
    match = _CONDITION.fullmatch(text)
    if not match:
        raise ValueError(
            "a condition is NAME OPERATOR VALUE, such as 'p99 > 50ms', 'errors > 1%' or"
            f" 'throughput < 100'; names are throughput, errors, mean, p50, p90, p99, p99.9; got"
            f" {text!r}"
        )
    name, compared, value, unit = match.groups()
    units = {"throughput": {"": 1.0}, "errors": {"%": 0.01, "": 1.0}}.get(name, UNITS_S)
    try:
        return Condition(name, compared, float(value) * units[unit])
    except (KeyError, ValueError):
        raise ValueError(
            f"{text!r} needs another unit: latencies such as 50ms, errors such as 1%, throughput"
            f" in calls/s, got {value}{unit}"
        ) from None


class Check:
    """Conditions on a reply, such as `text == "ok"` or `items.0.price > 0`.

    A condition names a field by its path and compares it with a JSON value. Raises `BadRequest` for
    another text, or for a field that the reply does not have.
    """

    def __init__(self, method: Method, conditions: Sequence[str]) -> None:
        self._conditions = [_parsed(each, method) for each in conditions]
        self._pool = method.described_by.pool
        self._reply_class = message_factory.GetMessageClass(method.descriptor.output_type)
        self.wrong = 0
        """Replies that did not fulfil a condition."""
        self.first_wrong = ""
        """What was wrong with the first of them."""

    def __call__(self, reply: bytes) -> bytes:
        """Look at a reply and return it unchanged."""
        if what := self._problem_of(reply):
            self.wrong += 1
            self.first_wrong = self.first_wrong or what
        return reply

    def _problem_of(self, reply: bytes) -> str:
        try:
            message = self._reply_class.FromString(reply)
        except DecodeError:
            return "a reply cannot be decoded"
        fields = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=self._pool,
        )
        for path, compared, wanted in self._conditions:
            value = _at(fields, path)
            try:
                holds = _OPERATORS[compared](_comparable(value, wanted), wanted)
            except TypeError:
                holds = False
            if not holds:
                return f"{path} is {json.dumps(value)[:60]}, and not {compared} {wanted!r}"
        return ""


def _parsed(text: str, method: Method) -> tuple[str, str, Any]:
    match = _CHECK.fullmatch(text)
    try:
        assert match
        path, compared, wanted = match[1], match[2], json.loads(match[3])
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
    return path, compared, wanted


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            return None
    return value


def _comparable(value: Any, wanted: Any) -> Any:
    """Return a number for a text of digits, as which JSON of protobuf writes 64-bit numbers."""
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    if number and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
