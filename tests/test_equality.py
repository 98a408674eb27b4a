"""NaN stands for "not known" in many records, and must never decide whether two of them are equal.

NaN is unequal even to itself. Until Python 3.12 the generated `__eq__` of a dataclass hid this,
because it compared tuples, and those take the same object for equal. From 3.13 on it compares
field by field: no object that holds NaN equals another.
"""

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Iterator

import benchmarks
import kvstore


def dataclasses_of_the_project() -> Iterator[type]:
    for package in (kvstore, benchmarks):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for each in vars(module).values():
                ours = isinstance(each, type) and each.__module__ == module.__name__
                if ours and dataclasses.is_dataclass(each):
                    yield each


def compared_nan(record: type) -> list[str]:
    """Names of the fields that are NaN by default and take part in a generated `__eq__`."""
    if record.__eq__ is object.__eq__:
        return []
    return [
        field.name
        for field in dataclasses.fields(record)
        if field.compare and isinstance(field.default, float) and math.isnan(field.default)
    ]


def test_no_dataclass_compares_a_field_that_is_nan_by_default():
    records = list(dataclasses_of_the_project())

    assert len(records) > 50
    assert {} == {each.__qualname__: names for each in records if (names := compared_nan(each))}
