"""A table of cases as one test, which runs every case and reports all that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

LIMIT_S = 120
"""What one test may take, as in pyproject.toml; each case of a table adds to it."""


def for_each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Return a decorator that calls a test with every case and raises all failures together.

    `names` and `cases` are as in `pytest.mark.parametrize`, which makes a test of each case. Use
    this one where a case is a line of a table and needs no fixture of its own.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [case if len(arguments) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., object]) -> Callable[..., None]:
        def every_case(**fixtures: Any) -> None:
            assert table, "a table without cases checks nothing"
            failures = []
            for case in table:
                try:
                    test(**dict(zip(arguments, case, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"with {', '.join(arguments)} = {_shown(case)}")
                    failures.append(failure)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} cases failed", failures)

        functools.update_wrapper(every_case, test)
        del every_case.__wrapped__  # pytest would look for the fixtures of the wrapped test
        signature = inspect.signature(test)
        every_case.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[
                each for each in signature.parameters.values() if each.name not in arguments
            ]
        )
        # The limit of one test is for one case; a table of many has that of all of them.
        return pytest.mark.timeout(LIMIT_S + 20 * len(table))(every_case)

    return decorate


def _shown(case: Sequence[Any]) -> str:
    return ", ".join(getattr(value, "__name__", None) or f"{value!r:.80}" for value in case)
