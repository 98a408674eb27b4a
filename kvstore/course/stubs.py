"""Stubs that hand each call to a function, which notes it, delays its end or chooses its server."""

import functools
from collections.abc import Callable
from typing import Any


class WrappedStub:
    """A stub whose calls `around(method, how, request, ...)` makes, and whose result it returns.

    `how` is "__call__", "future" or "with_call": the attribute of the method that was called.
    """

    def __init__(self, stub: Any, around: Callable[..., Any]) -> None:
        self._stub, self._around = stub, around

    def __getattr__(self, name: str) -> Any:
        setattr(self, name, _WrappedMethod(getattr(self._stub, name), self._around))
        return getattr(self, name)


class _WrappedMethod:
    """One method of such a stub."""

    def __init__(self, method: Any, around: Callable[..., Any]) -> None:
        self._method, self._around = method, around

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._around(self._method, "__call__", *arguments, **named)

    def __getattr__(self, how: str) -> Any:
        return functools.partial(self._around, self._method, how)


def noting(stub: Any, note: Callable[[], object]) -> WrappedStub:
    """Return a stub that calls `note` before each call."""

    def around(method: Any, how: str, *arguments: Any, **named: Any) -> Any:
        note()
        return getattr(method, how)(*arguments, **named)

    return WrappedStub(stub, around)
