"""The variables of a recorded cell as bytes, without code: JSON, and the content of its arrays.

Nothing in these bytes is executed when they are read, and no class but those of the course is used.
An object of the course comes back with the fields that it had; its `__init__` is not called.
"""

import dataclasses
import enum
import importlib
import json
import lzma
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from google.protobuf.message import Message
from numpy.lib.recfunctions import unstructured_to_structured

from kvstore.measure import Run
from kvstore.measure.recorder import CALL
from kvstore.server.settings import ServerSettings
from kvstore.subprocesses import Child

TICK_S: Final = 1e-6
"""Recorded times are rounded to microseconds."""
KIND: Final = ""
"""The name under which an object of JSON says what it stands for; a plain dictionary has none."""
_LENGTH: Final = struct.Struct("<Q")
_PLAIN: Final = (str, int, float, bool, type(None))
_ARRAYS: Final = "biufS"
"""Kinds of numbers and bytes that an array may have; never objects."""


class NotRecordable(TypeError):
    """A value that a recording cannot hold."""


class NotRecorded(ValueError):
    """Bytes that are no recording, or hold what a recording must not hold."""


def dumped(values: Mapping[str, Any]) -> bytes:
    """Return variables as bytes, compressed; runs take about five bytes for each call.

    Raises `NotRecordable` for a value that cannot be stored.
    """
    writer = _Writer()
    text = json.dumps(writer.plain(dict(values))).encode()
    return lzma.compress(b"".join((_LENGTH.pack(len(text)), text, *writer.arrays)))


def loaded(data: bytes) -> dict[str, Any]:
    """Return the variables in `data`. Raises `NotRecorded` for what `dumped` cannot have made."""
    try:
        whole = lzma.decompress(data)
        begin = _LENGTH.size + _LENGTH.unpack_from(whole)[0]
        values = _Reader(whole[begin:]).value(json.loads(whole[_LENGTH.size : begin]))
    except NotRecorded:
        raise
    except Exception as error:
        raise NotRecorded(f"this is no recording ({error!r}): record it anew") from error
    if not isinstance(values, dict):
        raise NotRecorded(f"a recording has names and values, got {values!r:.60}: record it anew")
    return values


class _Writer:
    """Makes plain JSON of values; arrays are put aside."""

    def __init__(self) -> None:
        self.arrays: list[bytes] = []
        self._length = 0
        self._known: dict[int, int] = {}
        self._kept: list[Any] = []
        """Objects of the course, so that one of them under two names stays one object."""

    def plain(self, value: Any) -> Any:
        """Return a value as JSON. Raises `NotRecordable`."""
        if type(value) in _PLAIN:
            return value
        if type(value) is list:
            return [self.plain(each) for each in value]
        if type(value) is dict and all(type(name) is str and name != KIND for name in value):
            return {name: self.plain(each) for name, each in value.items()}
        for kind, (its_type, of) in _BUILT.items():
            if type(value) is its_type:
                return {KIND: kind, "of": self.plain(of(value))}
        if isinstance(value, Child):
            return None  # a server that was stopped: its settings are what is left of it
        if isinstance(value, pd.DataFrame):
            columns = [_column_of(value.iloc[:, place]) for place in range(value.shape[1])]
            frame = [columns, _column_of(value.columns), _column_of(value.index)]
            return {KIND: "frame", "of": self.plain(frame)}
        if isinstance(value, pd.Series):
            series = [_column_of(value), _column_of(value.index), value.name]
            return {KIND: "series", "of": self.plain(series)}
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {KIND: "number", "type": value.dtype.str, "of": value.item()}
        if isinstance(value, np.ndarray) and value.dtype.kind in _ARRAYS:
            return self._array(value)
        if type(value).__module__.partition(".")[0] == "kvstore":
            return self._of_course(value)
        raise NotRecordable(f"a recording cannot hold {type(value).__name__}")

    def _array(self, value: npt.NDArray[Any]) -> dict[str, Any]:
        data = value.tobytes()
        self.arrays.append(data)
        at, self._length = self._length, self._length + len(data)
        return {KIND: "array", "type": value.dtype.str, "shape": list(value.shape), "at": at}

    def _of_course(self, value: Any) -> dict[str, Any]:
        if id(value) in self._known:
            return {KIND: "again", "of": self._known[id(value)]}
        kind = type(value)
        name = f"{kind.__module__}:{kind.__qualname__}"
        if _found(name) is not kind:
            raise NotRecordable(f"{name} cannot be found by its name")
        facts = self.plain(_state(value))
        self._known[id(value)] = len(self._kept)
        self._kept.append(value)  # or another object might get its id
        return {KIND: "course", "type": name, "of": facts}


class _Reader:
    """Makes values of plain JSON, and of the arrays that were put aside."""

    def __init__(self, arrays: bytes) -> None:
        self._arrays = arrays
        self._known: list[Any] = []

    def value(self, plain: Any) -> Any:
        """Return the value that this JSON stands for. Raises `NotRecorded`, and other errors."""
        if isinstance(plain, list):
            return [self.value(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        if KIND not in plain:
            return {name: self.value(each) for name, each in plain.items()}
        kind: str = plain[KIND]
        if kind == "array":
            return self._array(plain["type"], plain["shape"], plain["at"])
        if kind == "number":
            return _number_type(plain["type"]).type(plain["of"])
        if kind == "again":
            return self._known[plain["of"]]
        of = self.value(plain["of"])
        if kind == "course":
            made = _restored(_found(plain["type"]), of)
            self._known.append(made)
            return made
        if kind not in _MADE:
            raise NotRecorded(f"a recording must not hold {kind!r:.60}: record it anew")
        return _MADE[kind](of)

    def _array(self, kind: str, shape: list[int], at: int) -> npt.NDArray[Any]:
        dtype = _number_type(kind)
        count = int(np.prod(shape, dtype=int))
        found = np.frombuffer(self._arrays, dtype, count, at) if count else np.empty(0, dtype)
        return found.reshape(shape).copy()


_BUILT: Final[Mapping[str, tuple[type, Callable[[Any], Any]]]] = {
    "dict": (dict, lambda value: [list(each) for each in value.items()]),
    "tuple": (tuple, list),
    "set": (set, lambda value: sorted(value, key=repr)),
    "frozenset": (frozenset, lambda value: sorted(value, key=repr)),
    "bytes": (bytes, lambda value: value.decode("latin-1")),
    "range": (range, lambda value: [value.start, value.stop, value.step]),
}
"""Types of Python, and the plain value that each is stored as."""
_MADE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "dict": dict,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "bytes": lambda text: text.encode("latin-1"),
    "range": lambda parts: range(*parts),
    "frame": lambda parts: _frame(*parts),
    "series": lambda parts: _series(*parts),
}
"""How each is made again."""


def _number_type(name: str) -> np.dtype[Any]:
    kind = np.dtype(name)
    if kind.kind not in _ARRAYS or kind.names:
        raise NotRecorded(f"a recording must not hold an array of {name!r:.60}: record it anew")
    return kind


# ---- objects of the course -----------------------------------------------------------------------


def _found(name: str) -> type:
    """Return a class of the course by "module:name". Raises `NotRecorded`."""
    module, _, within = name.partition(":")
    parts = module.split(".")
    if parts[0] != "kvstore" or "__main__" in parts:
        raise NotRecorded(f"a recording must not hold {name!r:.60}: record it anew")
    found: Any = importlib.import_module(module)
    for part in within.split("."):
        found = found.__dict__.get(part) if hasattr(found, "__dict__") else None
    if not isinstance(found, type) or found.__module__.partition(".")[0] != "kvstore":
        raise NotRecorded(f"{name!r:.60} is no class of the course: record it anew")
    return found


def _state(value: Any) -> Any:
    """Return what an object of the course consists of. Raises `NotRecordable`."""
    if isinstance(value, Message):
        return value.SerializeToString(deterministic=True)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Run):
        facts = _fields(value)
        del facts["sample_rows"]
        return {**facts, "records": packed(value.records), "samples": value.samples}
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(value)
    if type(value).__dict__.get("__slots__") is None and hasattr(value, "__dict__"):
        return vars(value)
    raise NotRecordable(f"a recording cannot hold {type(value).__name__}")


def _fields(value: Any) -> dict[str, Any]:
    names = (each.name for each in dataclasses.fields(value))
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _restored(kind: type, state: Any) -> Any:
    """Return an object of the course from its `_state`; none of its own code is run."""
    if issubclass(kind, Message):
        message: Message = kind()
        message.ParseFromString(state)
        return message
    if issubclass(kind, enum.Enum):
        return kind._value2member_map_[state]
    if issubclass(kind, tuple):
        return tuple.__new__(kind, state)
    if issubclass(kind, Run):
        state = {**state, "records": unpacked(state["records"])}
        samples: pd.DataFrame = state.pop("samples")
        columns = np.dtype([(name, float) for name in samples])
        state["sample_rows"] = unstructured_to_structured(samples.to_numpy(float), columns)
    if kind is ServerSettings:  # a setting that servers had when these were recorded
        state = {name: value for name, value in state.items() if name != "serializable_reads"}
    made = object.__new__(kind)
    for name, value in (_defaults(kind, state) | state).items():
        object.__setattr__(made, name, value)
    return made


def _defaults(kind: type, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the class has got since. Raises `NotRecorded` for those it lost."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names = {each.name for each in fields} or {each for each in state if each[:2] != "__"}
    if odd := set(state) - names:
        raise NotRecorded(f"{kind.__name__} has no {', '.join(sorted(odd))}: record it anew")
    found = {}
    for each in fields:
        if each.name not in state:
            if each.default is not dataclasses.MISSING:
                found[each.name] = each.default
            elif each.default_factory is not dataclasses.MISSING:
                found[each.name] = each.default_factory()
            else:
                raise NotRecorded(f"{kind.__name__} lacks {each.name}: record it anew")
    return found


# ---- tables --------------------------------------------------------------------------------------


def _column_of(column: Any) -> list[Any]:
    """Return values, type and names of a column or an index, without an object of pandas."""
    if isinstance(column, pd.MultiIndex):
        return [list(column), "multi", list(column.names)]
    values = np.asarray(column)
    name = column.name if isinstance(column, pd.Index) else None
    if values.dtype.kind in "biuf":
        return [values, str(column.dtype), name]
    return [[each for each in column], "object", name]


def _column(plain: Sequence[Any]) -> Any:
    values, kind, _ = plain
    return values if kind != "object" else pd.Series(values, dtype=object).infer_objects()


def _index(plain: Sequence[Any]) -> Any:
    values, kind, name = plain
    if kind == "multi":
        return pd.MultiIndex.from_tuples(values, names=name)
    return pd.Index(values, name=name)


def _frame(columns: Sequence[Any], names: Any, index: Any) -> pd.DataFrame:
    data = {place: np.asarray(_column(column)) for place, column in enumerate(columns)}
    frame = pd.DataFrame(data, index=_index(index)).infer_objects()
    frame.columns = _index(names)
    return frame


def _series(values: Any, index: Any, name: Any) -> "pd.Series[Any]":
    return pd.Series(np.asarray(_column(values)), index=_index(index), name=name).infer_objects()


# ---- the records of a run ------------------------------------------------------------------------


def packed(records: npt.NDArray[np.void]) -> dict[str, Any]:
    """Return the columns of a run's records as small integers: times in ticks, as differences."""
    columns: dict[str, Any] = {"": len(records)}
    if not len(records):
        return columns
    done = _ticks(records["done_s"])
    for name in records.dtype.names or ():
        column = records[name]
        if column.dtype.kind == "f":
            missing = np.isnan(column)
            if missing.all():
                continue
            ticks = np.where(missing, 0, _ticks(column))
            if name == "done_s":
                ticks = np.diff(done, prepend=0)
            elif name in ("sent_s", "due_s"):
                ticks = np.where(missing, 0, done - ticks)
            columns[name] = _small(ticks), _small(np.flatnonzero(missing))
        else:
            columns[name] = _small(column), _small(np.empty(0, int))
    return columns


def unpacked(columns: Mapping[str, Any]) -> npt.NDArray[np.void]:
    """Return the records of `packed`, with times rounded to TICK_S."""
    records = np.zeros(columns[""], dtype=CALL)
    if not len(records):
        return records
    done = np.cumsum(_wide(columns["done_s"][0], len(records)))
    for name in CALL.names or ():
        if name not in columns:
            if CALL[name].kind == "f":
                records[name] = np.nan
            continue
        values, missing = columns[name]
        wide = _wide(values, len(records))
        if CALL[name].kind != "f":
            records[name] = wide
            continue
        if name == "done_s":
            wide = done
        elif name in ("sent_s", "due_s"):
            wide = done - wide
        records[name] = wide * TICK_S
        records[name][_wide(missing)] = np.nan
    return records


def _ticks(seconds: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    ticks: npt.NDArray[np.int64] = np.rint(np.nan_to_num(seconds) / TICK_S).astype(np.int64)
    return ticks


def _small(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values in the smallest integers that hold them, the bytes of one weight together."""
    if len(values) and (values == values[0]).all():
        values = values[:1]
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    kind = next(
        k for k in ("i1", "i2", "i4", "i8") if np.iinfo(k).min <= low and high <= np.iinfo(k).max
    )
    width = np.dtype(kind).itemsize
    return values.astype(f"<{kind}").view("u1").reshape(-1, width).T.copy()


def _wide(small: npt.NDArray[Any], length: int | None = None) -> npt.NDArray[np.int64]:
    width = len(small)
    values = np.frombuffer(small.T.tobytes(), f"<i{width}").astype(np.int64)
    if length is None or len(values) == length:
        return values
    return np.full(length, values[0], dtype=np.int64)
