"""The folder `my_code/` beside the learner's lessons: what they wrote, in files that they keep.

`store.py`, `clients.py` and `bench.py` hold plain gRPC and import nothing of the course. A function
or class stands there in the course's version until the learner's has passed its check; then `keep`
writes theirs. Nothing that a learner wrote is lost: the earlier versions of each file are in
`my_code/earlier/`.

`install` makes the folder importable; the first import of `my_code` creates it.
"""

import ast
import builtins
import dis
import functools
import importlib
import inspect
import linecache
import os
import sys
import textwrap
import time
import types
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Final

import cloudpickle

VARIABLE: Final = "COURSE_MY_CODE"
"""The environment variable with another place for the folder; tests use it."""
PACKAGE: Final = "my_code"
EARLIER: Final = "earlier"
MARK: Final = "# The course's version: yours takes its place when it has passed its check.\n"
"""The comment above each part of a file that the learner has not written yet."""
STUBS: Final = ("kvstore_pb2.py", "kvstore_pb2_grpc.py", "etcd_pb2.py")
GENERATED: Final = "kvstore.v1"
"""The package whose generated code the folder has a copy of."""


class CannotKeep(Exception):
    """The learner's code was not written to its file; the message says why, and what to do."""


def folder() -> Path:
    """Return the place of the folder: beside the lessons, which are in the current folder."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).absolute()
    here = Path.cwd()
    return (here.parent if here.name == "further" else here) / PACKAGE


def prepare() -> list[str]:
    """Create what is missing of the folder; return the names of the files that were created.

    Raises OSError if it cannot be written.
    """
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    created = []
    for name, text in starters().items():
        path = place / name
        if not path.exists():
            _write(path, text)
            created.append(name)
    return created


def starters() -> dict[str, str]:
    """Return the text of each file as a learner gets it, by name."""
    here = resources.files("kvstore.course.starter") / PACKAGE
    texts = {
        each.name: each.read_text("utf-8") for each in here.iterdir() if each.name.endswith(".py")
    }
    for name in STUBS:
        text = (resources.files(GENERATED) / name).read_text("utf-8")
        texts[name] = text.replace(f"from {GENERATED} import", f"from {PACKAGE} import")
    return texts


@functools.cache
def _course_module(name: str) -> types.ModuleType:
    """Return a module of the folder as a learner gets it, with the course's generated code."""
    file = resources.files("kvstore.course.starter") / PACKAGE / f"{name}.py"
    text = file.read_text("utf-8").replace(f"from {PACKAGE}", f"from {GENERATED}")
    module = types.ModuleType(f"kvstore.course.starter.{PACKAGE}.{name}")
    exec(compile(text, str(file), "exec"), vars(module))
    return module


def course_version(place: str) -> Any:
    """Return a function or class in the course's version, such as that of `clients.bounded`."""
    module_name, _, name = place.partition(".")
    return getattr(_course_module(module_name), name)


ABSENT: Final = """

def __getattr__(name):
    def absent(*_, **__):
        raise NotImplementedError(f"{name} is an answer of another exercise")

    return absent
"""


def write_without_answers(place: Path) -> None:
    """Write the folder into `place` without the parts that are answers, for those who give marks.

    What is left out can be imported, and raises an error when it is called.
    """
    for name, text in starters().items():
        while MARK in text:
            lines = text.splitlines(keepends=True)
            first = lines.index(MARK)
            below = ast.parse("".join(lines[first:])).body[0]
            text = "".join([*lines[:first], *lines[first + (below.end_lineno or 1) :]])
        (place / PACKAGE).mkdir(exist_ok=True)
        whole = name in (*STUBS, "__init__.py")
        (place / PACKAGE / name).write_text(text if whole else text + ABSENT, "utf-8")


def _write(path: Path, text: str) -> None:
    """Write the whole file or nothing of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


class _Finder:
    """Finds `my_code`, and creates the folder at its first import."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != PACKAGE:
            return None
        if name == PACKAGE:
            prepare()
        spec = PathFinder.find_spec(name, [str(folder().parent)] if name == PACKAGE else path)
        if spec is not None and spec.origin and Path(spec.origin).name not in STUBS:
            _seen[name] = os.stat(spec.origin).st_mtime_ns
        return spec


_seen: dict[str, int] = {}
"""When each loaded file was last changed, in nanoseconds."""


def install() -> None:
    """Make `my_code` importable in this process, and let each cell see its files as they are."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if "IPython" not in sys.modules:
        return
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is not None:
        shell.events.register("pre_run_cell", lambda *_: forget_changed())


def forget_changed() -> None:
    """Forget the modules of files that changed since: an import reads them anew."""
    names = [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]
    names = [name for name in names if f"{name.rpartition('.')[2]}.py" not in STUBS]
    changed = False
    for name in names:
        now = _changed_ns(sys.modules[name])
        changed |= _seen.setdefault(name, now) != now
    if changed:
        for name in names:
            _forget(name)


def _forget(name: str) -> None:
    _seen.pop(name, None)
    if (module := sys.modules.pop(name, None)) is not None:
        parent = sys.modules.get(PACKAGE)
        if getattr(parent, name.rpartition(".")[2], None) is module:
            delattr(parent, name.rpartition(".")[2])
    importlib.invalidate_caches()


def _changed_ns(module: types.ModuleType) -> int:
    try:
        return os.stat(module.__file__ or "").st_mtime_ns
    except OSError:
        return 0


def part(place: str) -> Any:
    """Return what a file of the folder holds now, such as `clients.bounded`.

    Raises CannotKeep if the file has an error, or no such part.
    """
    module_name, _, name = place.partition(".")
    path = folder() / f"{module_name}.py"
    forget_changed()
    try:
        module = importlib.import_module(f"{PACKAGE}.{module_name}")
        return getattr(module, name)
    except SyntaxError as error:
        raise CannotKeep(
            f"{_shown(path)} has a syntax error in line {error.lineno}: {error.msg}. Mend it there."
        ) from None
    except AttributeError:
        raise CannotKeep(f"{_shown(path)} has no `{name}`: write it there, or in a cell.") from None
    except Exception as error:
        raise CannotKeep(f"{_shown(path)} cannot be imported: {error!r}") from None


def current(thing: Any) -> Any:
    """Return the newest version of a function or class of the folder; any other thing as it is."""
    module, _, name = str(getattr(thing, "__module__", "")).rpartition(".")
    if module != PACKAGE:
        return thing
    return part(f"{name}.{thing.__qualname__}")


def is_the_courses(thing: Any) -> bool:
    """Return whether this function or class is the course's version that the folder began with."""
    name = getattr(thing, "__name__", "")
    try:
        source = _source_of(thing)
    except (OSError, TypeError):
        return False
    ours = (_definition(text, name) for text in starters().values())
    return any(original is not None and original.rstrip() == source.rstrip() for original in ours)


def by_value() -> list[types.ModuleType]:
    """Let cloudpickle send code of the folder whole; return the modules. See `other_process`."""
    modules = [
        module
        for name, module in sys.modules.items()
        if name.startswith(f"{PACKAGE}.") and f"{name.rpartition('.')[2]}.py" not in STUBS
    ]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    return modules


def keep(place: str, answer: Any) -> str:
    """Write a function or class to its file, with the imports and helpers that it needs.

    `place` is such as "clients.bounded". Return one line that says where it is. The earlier version
    of the file is kept beside it. Raises CannotKeep with the reason, and changes nothing then.
    """
    module_name, _, name = place.partition(".")
    path = folder() / f"{module_name}.py"
    try:
        prepare()
        before = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotKeep(
            f"{_shown(path)} cannot be read: {error}. Your code is in its cell."
        ) from None
    if str(getattr(answer, "__module__", "")) == f"{PACKAGE}.{module_name}":
        return f"It is in {_shown(path)}."
    after = _with(before, path, name, _Needed(answer, name, module_name))
    if after != before:
        try:
            kept = _keep_earlier(path, before) if before != starters().get(path.name) else None
            _write(path, after)
        except OSError as error:
            raise CannotKeep(
                f"{_shown(path)} cannot be written: {error.strerror}. Your code is in its cell."
            ) from None
        _forget(f"{PACKAGE}.{module_name}")
        if kept is not None:
            return f"Kept in {_shown(path)}; the earlier version is in {_shown(kept)}."
    return f"Kept in {_shown(path)}."


def _keep_earlier(path: Path, text: str) -> Path:
    at = time.strftime("%Y-%m-%d_%H%M%S")
    (path.parent / EARLIER).mkdir(exist_ok=True)
    number = 1
    while (kept := path.parent / EARLIER / f"{path.stem}_{at}_{number}.py").exists():
        number += 1
    _write(kept, text)
    return kept


def _shown(path: Path) -> str:
    return path.relative_to(folder().parent).as_posix()


class _Needed:
    """The source of an answer, and what its file needs for it: imports and helpers of its cells."""

    def __init__(self, answer: Any, name: str, module_name: str) -> None:
        self._module = f"{PACKAGE}.{module_name}"
        self._done: set[str] = set()
        self.imports: list[str] = []
        self.definitions: list[tuple[str, str]] = []
        """Names and sources, in the order in which they need each other."""
        self._take(answer, name)

    def _take(self, thing: Any, name: str) -> None:
        self._done.add(name)
        try:
            source = _source_of(thing)
        except (OSError, TypeError):
            raise CannotKeep(
                f"the source of `{name}` cannot be found: run its cell again, and check again."
            ) from None
        if not isinstance(thing, type) and getattr(thing, "__name__", name) != name:
            source = source.replace(f"def {thing.__name__}(", f"def {name}(", 1)
        for used, value in _globals_of(thing):
            if used not in self._done:
                self._add(used, value)
        self.definitions.append((name, source.strip() + "\n"))

    def _add(self, name: str, value: Any) -> None:
        module = str(getattr(value, "__module__", None) or "")
        if isinstance(value, types.ModuleType):
            self._done.add(name)
            self.imports.append(_import_of(value, name))
        elif isinstance(value, type | types.FunctionType) and module == "__main__":
            self._take(value, name)
        elif module == self._module:
            self._done.add(name)  # it stands in the same file
        elif callable(value) and module and hasattr(sys.modules.get(module), value.__name__):
            self._done.add(name)
            as_name = "" if value.__name__ == name else f" as {name}"
            self.imports.append(f"from {_ours(module)} import {value.__name__}{as_name}")
        elif _is_literal(value):
            self._done.add(name)
            self.definitions.append((name, f"{name} = {value!r}\n"))
        else:
            raise CannotKeep(
                f"it uses `{name}`, which another cell made: pass it as an argument, or make it in"
                " the function. Then check again."
            )


def _source_of(thing: Any) -> str:
    """Return the source of a function or class. Raises OSError if it cannot be found.

    `inspect` does not find that of a class which a cell defined: its methods know their file.
    """
    if not isinstance(thing, type):
        return textwrap.dedent(inspect.getsource(thing))
    functions = [each for each in vars(thing).values() if isinstance(each, types.FunctionType)]
    lines = linecache.getlines(functions[0].__code__.co_filename) if functions else []
    source = _definition("".join(lines), thing.__name__)
    if source is None:
        raise OSError("no source")
    return source


def _globals_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the global names that the code of a function or class uses, with their values."""
    functions = [thing] if isinstance(thing, types.FunctionType) else []
    if functions:
        (node,) = ast.parse(_source_of(thing)).body
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in _names_of([node.args, *node.decorator_list, *filter(None, [node.returns])]):
            if name in thing.__globals__:
                yield name, thing.__globals__[name]
    if isinstance(thing, type):
        functions = [each for each in vars(thing).values() if isinstance(each, types.FunctionType)]
        scope = functions[0].__globals__ if functions else {}
        (node,) = ast.parse(_source_of(thing)).body
        assert isinstance(node, ast.ClassDef)
        methods = (ast.FunctionDef, ast.AsyncFunctionDef)
        inside = [each for each in node.body if not isinstance(each, methods)]
        for name in _names_of([*node.bases, *node.decorator_list, *inside]):
            if name in scope:
                yield name, scope[name]
    for function in functions:
        for name in _names_in(function.__code__):
            if name in function.__globals__:
                yield name, function.__globals__[name]
            elif not hasattr(builtins, name):
                raise CannotKeep(
                    f"it uses `{name}`, which is not defined: run its cell, and check."
                )


def _names_of(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _names_in(code: types.CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _ours(module: str) -> str:
    """Return the module of the folder that is the copy of a generated one; any other as it is."""
    return f"{PACKAGE}{module.removeprefix(GENERATED)}" if module.startswith(GENERATED) else module


def _import_of(module: types.ModuleType, name: str) -> str:
    parent, _, last = _ours(module.__name__).rpartition(".")
    if parent and last == name:
        return f"from {parent} import {last}"
    if not parent and last == name:
        return f"import {name}"
    return f"from {parent} import {last} as {name}" if parent else f"import {last} as {name}"


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _with(before: str, path: Path, name: str, needed: _Needed) -> str:
    """Return the text of the file with these definitions in the place of those of the same name."""
    try:
        ast.parse(before)
    except SyntaxError as error:
        raise CannotKeep(
            f"{_shown(path)} has a syntax error in line {error.lineno}, so your `{name}` was not"
            " written to it. Mend the file, and check again."
        ) from None
    text = before
    for each, source in needed.definitions:
        text = _replaced(text, each, source)
    return _with_imports(text, needed.imports)


def _replaced(text: str, name: str, source: str) -> str:
    span = _span(text, name)
    if span is None:
        return f"{text.rstrip()}\n\n\n{source}" if text.strip() else source
    lines = text.splitlines(keepends=True)
    first, last = span
    if first and lines[first - 1] == MARK:
        first -= 1
    return "".join([*lines[:first], source, *lines[last:]])


def _span(text: str, name: str) -> tuple[int, int] | None:
    """Return where a part of the file begins and ends, in lines from 0; None if it has none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                return first - 1, node.end_lineno or first
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in node.targets
        ):
            return node.lineno - 1, node.end_lineno or node.lineno
    return None


def _definition(text: str, name: str) -> str | None:
    span = _span(text, name)
    return None if span is None else "".join(text.splitlines(keepends=True)[span[0] : span[1]])


def _with_imports(text: str, imports: Sequence[str]) -> str:
    tree = ast.parse(text)
    bound = {
        (alias.asname or alias.name)
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    wanted = [each for each in imports if each.rpartition(" ")[2] not in bound]
    if not wanted:
        return text
    last = 0
    for node in tree.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (docstring and not last):
            last = node.end_lineno or 0
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:last], *(f"{each}\n" for each in sorted(wanted)), *lines[last:]])
