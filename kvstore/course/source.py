"""The package's own source, as the learner reads it: what is shown is what runs."""

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kvstore.course import rendering

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def show_source(thing: Callable[..., Any] | type | ModuleType) -> None:
    """Show the source of a function, class or module of the package, highlighted.

    TypeError for a value that has no source of its own, such as a number.
    """
    source, origin = source_of(thing), origin_of(thing)
    rendering.show(
        {
            "text/plain": f"# {origin}\n{source}",
            "text/markdown": f"{rendering.markdown_escaped(origin)}\n\n{fenced(source)}",
        }
    )


def source_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """The text of the definition, without the indentation of where it stands."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(_definition(thing)))).rstrip()
    except (TypeError, OSError) as error:
        raise TypeError(
            f"there is no source to show for {thing!r}: "
            "pass a function or a class by its name, without calling it"
        ) from error


def origin_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """Where the definition stands: the file within the package, and the line."""
    definition = inspect.unwrap(_definition(thing))
    file = Path(inspect.getsourcefile(definition) or "")
    line = 1 if inspect.ismodule(definition) else inspect.getsourcelines(definition)[1]
    if file.is_relative_to(_PACKAGE):
        return f"{file.relative_to(_PACKAGE.parent).as_posix()}, line {line}"
    return f"this notebook, line {line} of its cell" if _in_cell(file) else f"{file}, line {line}"


def fenced(source: str) -> str:
    """The source as a Markdown block that the front end highlights in its own theme."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{source}\n{fence}"


def _definition(thing: Any) -> Any:
    return getattr(thing, "func", thing)  # a functools.partial shows what it calls


def _in_cell(file: Path) -> bool:
    return not file.exists() or "ipykernel_" in str(file)
