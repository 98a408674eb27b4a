"""The source of the package and of its proto file, on the page: the code shown is the code run."""

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
    """Show the source of a function, class or module, highlighted.

    Raise TypeError for a value without source, such as a number.
    """
    source, origin = source_of(thing), origin_of(thing)
    rendering.show(
        {
            "text/plain": f"# {origin}\n{source}",
            "text/markdown": f"{rendering.markdown_escaped(origin)}\n\n{fenced(source)}",
        }
    )


def source_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """Return the text of the definition without its indentation."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(_definition(thing)))).rstrip()
    except (TypeError, OSError) as error:
        raise TypeError(
            f"there is no source to show for {thing!r}: "
            "pass a function or a class by its name, without calling it"
        ) from error


def origin_of(thing: Callable[..., Any] | type | ModuleType) -> str:
    """Return the place of the definition: the file within the package, and the line."""
    definition = inspect.unwrap(_definition(thing))
    file = Path(inspect.getsourcefile(definition) or "")
    line = 1 if inspect.ismodule(definition) else inspect.getsourcelines(definition)[1]
    if file.is_relative_to(_PACKAGE):
        return f"{file.relative_to(_PACKAGE.parent).as_posix()}, line {line}"
    return f"this notebook, line {line} of its cell" if _in_cell(file) else f"{file}, line {line}"


def fenced(source: str, language: str = "python") -> str:
    """Return the source as a Markdown block, which the front end highlights in its theme."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{source}\n{fence}"


def _definition(thing: Any) -> Any:
    return getattr(thing, "func", thing)  # a functools.partial shows what it calls


def _in_cell(file: Path) -> bool:
    return not file.exists() or "ipykernel_" in str(file)


PROTO: Final = _PACKAGE.parent / "proto/kvstore/v1/kvstore.proto"


def show_message(*names: str) -> None:
    """Show messages, enums or services of the proto file, with the comments above them."""
    text = "\n\n".join(_message(name) for name in names)
    rendering.show(
        {
            "text/plain": text,
            "text/markdown": f"proto/kvstore/v1/kvstore.proto\n\n{fenced(text, 'protobuf')}",
        }
    )


def _message(name: str) -> str:
    """Return the text of one definition of the proto file; raise LookupError if it has none."""
    found = re.search(
        rf"(?:^//[^\n]*\n)*^(?:message|enum|service) {re.escape(name)} (?:{{}}|{{.*?^}})",
        PROTO.read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise LookupError(f"{PROTO.name} defines no {name!r}: check the name")
    return found.group()
