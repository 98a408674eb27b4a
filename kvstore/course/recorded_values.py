"""The variables of a recorded cell as bytes: pickled, and runs as columns that compress well.

A pickle may name any function to call. `loaded` refuses all but classes of the course and what
makes tables and arrays.
"""

import dataclasses
import io
import pickle
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from kvstore.measure import Run
from kvstore.measure.recorder import CALL
from kvstore.subprocesses import Child

_MAKES_VALUES: Final = {
    *((__name__, name) for name in ("_run", "_frame", "_nothing")),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
    ("pandas", "Series"),
    ("pandas.core.series", "Series"),
    *(("builtins", name) for name in ("frozenset", "range", "set", "slice")),
}
"""What a recording may name beside classes of the course."""

TICK_S: Final = 1e-6
"""Recorded times are rounded to microseconds."""
TICKS: Final = 1000
"""When calls were sent and done is rounded to less where a quick call takes this many ticks."""
_MOMENTS: Final = frozenset({"due_s", "sent_s", "done_s"})


class NotRecorded(ValueError):
    """Bytes that are no recording, or hold what a recording must not hold."""


def dumped(values: Mapping[str, Any]) -> bytes:
    """Return variables as bytes. What cannot be pickled raises what `pickle` raises."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(dict(values))
    return buffer.getvalue()


def loaded(data: bytes) -> dict[str, Any]:
    """Return the variables in `data`. Raises `NotRecorded` for what `dumped` cannot have made."""
    try:
        values: dict[str, Any] = _Unpickler(io.BytesIO(data)).load()
    except NotRecorded:
        raise
    except Exception as error:
        raise NotRecorded(f"this is no recording ({error!r}): record it anew") from error
    return values


class _Pickler(pickle.Pickler):
    """Packs runs, and writes tables so that each version of pandas can read them.

    The process of a server is left out: its settings are what is left of it.
    """

    def reducer_override(self, value: Any) -> Any:
        """Return a function that makes the value again, with its arguments."""
        if isinstance(value, Child):
            return _nothing, ()
        if isinstance(value, Run):
            facts = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            return _run, ({**facts, "records": packed(value.records)},)
        if isinstance(value, pd.DataFrame):
            return _frame, (value.to_dict("tight"),)
        if isinstance(value, pd.Series):
            return pd.Series, (list(value), list(value.index), None, value.name)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return what a recording names. Raises `NotRecorded`."""
        if (module, name) in _MAKES_VALUES:
            return super().find_class(module, name)
        if module.partition(".")[0] == "kvstore" and not module.endswith("__main__"):
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__.partition(".")[0] == "kvstore":
                return found
        raise NotRecorded(f"a recording must not hold {module}.{name}: record it anew")


def _nothing() -> None:
    return None


def _frame(tight: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(tight, orient="tight")


def _run(facts: dict[str, Any]) -> Run:
    return Run(**{**facts, "records": unpacked(facts["records"])})


# ---- the records of a run ------------------------------------------------------------------------


def packed(records: npt.NDArray[np.void]) -> dict[str, Any]:
    """Return the columns of a run's records as small integers: times in ticks, as differences."""
    columns: dict[str, Any] = {"": len(records)}
    if not len(records):
        return columns
    columns["tick_s"] = tick_s = _tick_s(records)
    done = _ticks(records["done_s"], tick_s)
    for name in records.dtype.names or ():
        column = records[name]
        if column.dtype.kind == "f":
            missing = np.isnan(column)
            if missing.all():
                continue
            if name == "done_s":
                ticks = np.diff(done, prepend=0)
            elif name in _MOMENTS:
                ticks = np.where(missing, 0, done - _ticks(column, tick_s))
            else:
                ticks = _ticks(column, TICK_S)
            columns[name] = _small(ticks), _small(np.flatnonzero(missing))
        else:
            columns[name] = _small(column), _small(np.empty(0, int))
    return columns


def unpacked(columns: Mapping[str, Any]) -> npt.NDArray[np.void]:
    """Return the records of `packed`, with their times rounded."""
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
        elif name in _MOMENTS:
            wide = done - wide
        records[name] = wide * (columns["tick_s"] if name in _MOMENTS else TICK_S)
        records[name][_wide(missing)] = np.nan
    return records


def _tick_s(records: npt.NDArray[np.void]) -> float:
    """The largest power of ten, from TICK_S up, that is small beside the time of a quick call."""
    quick_s = float(np.quantile(records["done_s"] - records["sent_s"], 0.01))
    tick_s = TICK_S
    while tick_s * 10 * TICKS <= quick_s:
        tick_s *= 10
    return tick_s


def _ticks(seconds: npt.NDArray[Any], tick_s: float) -> npt.NDArray[np.int64]:
    ticks: npt.NDArray[np.int64] = np.rint(np.nan_to_num(seconds) / tick_s).astype(np.int64)
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
