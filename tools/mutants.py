"""Change the references of exercises with cosmic-ray's operators; count what the checks notice.

    python tools/mutants.py 02 03.bounded     a table; each mutant that passed is printed below it
    python tools/mutants.py --keep 02 03      writes some that were rejected, for the tests

A mutant is a reference with one operator, number, comparison or keyword changed, as a learner might
have it wrong. A mutant that passes is either as right as the reference or a gap in the check. Needs
`pip install cosmic-ray`; the course itself does not.
"""

import argparse
import ast
import difflib
import inspect
import json
import random
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
if __name__ == "__main__":  # run as a file, in a checkout that need not be installed
    sys.path.insert(0, str(ROOT))
KEPT: Final = ROOT / "tests" / "course" / "mutants.json"
KEPT_EACH: Final = 2
"""How many rejected mutants of an exercise the tests get."""


def source_of(exercise: Any) -> str:
    """Return the reference and its parts as one text, without annotations and docstrings."""
    parts = [*exercise.solution_parts, exercise.reference]
    tree = ast.parse("\n\n".join(textwrap.dedent(inspect.getsource(part)) for part in parts))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            described = ast.get_docstring(node) is not None
            node.body = (node.body[1:] or [ast.Pass()]) if described else node.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        for name, value in ast.iter_fields(node):  # `x: int = 1` becomes `x = 1`
            if isinstance(value, list):
                setattr(node, name, [_plain(each) for each in value if each is not None])
    return ast.unparse(ast.fix_missing_locations(tree))


def _plain(node: Any) -> Any:
    if isinstance(node, ast.AnnAssign):
        if node.value is None:
            return ast.Pass()
        return ast.Assign(targets=[node.target], value=node.value)
    return node


def mutants_of(source: str, most: int) -> list[tuple[str, str]]:
    """Return up to `most` pairs of an operator's name and the changed source."""
    from cosmic_ray.mutating import mutate_code  # type: ignore[import-not-found,unused-ignore]
    from cosmic_ray.plugins import (  # type: ignore[import-not-found,unused-ignore]
        get_operator,
        operator_names,
    )

    found: dict[str, str] = {}
    for name in sorted(operator_names()):
        if "variable" in name.lower() or name.endswith(("_Eq_Is", "_Is_Eq")):
            continue  # the first need arguments of their own; the second change nothing here
        for occurrence in range(200):
            changed = mutate_code(source, get_operator(name)(), occurrence)
            if changed is None:
                break
            found.setdefault(changed, name.split("/")[-1])
    for name, changed in deletions(source):
        found.setdefault(changed, name)
    pairs = [(name, changed) for changed, name in found.items() if changed != source]
    if len(pairs) > most:
        pairs = random.Random(0).sample(pairs, most)
    return pairs


def deletions(source: str) -> Iterator[tuple[str, str]]:
    """Yield the source without one statement, argument, `with` or `except`: cosmic-ray has none."""
    count = sum(1 for _ in ast.walk(ast.parse(source)))
    for place in range(count):
        for what in ("statement", "keyword", "argument", "with", "except"):
            tree = ast.parse(source)
            node: Any = list(ast.walk(tree))[place]
            if what == "statement" and isinstance(node, ast.stmt) and _inside(tree, node):
                _replace(tree, node, [ast.Pass()])
            elif what == "keyword" and isinstance(node, ast.Call) and node.keywords:
                node.keywords.pop()
            elif what == "argument" and isinstance(node, ast.Call) and len(node.args) > 1:
                node.args.pop()
            elif (what == "with" and isinstance(node, ast.With)) or (
                what == "except" and isinstance(node, ast.Try)
            ):
                _replace(tree, node, node.body)
            else:
                continue
            yield f"delete {what}", ast.unparse(ast.fix_missing_locations(tree))


def _inside(tree: ast.Module, node: ast.AST) -> bool:
    return node not in tree.body and not isinstance(node, ast.Pass | ast.Nonlocal)


def _replace(tree: ast.AST, old: ast.AST, new: list[ast.stmt]) -> None:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list) and old in value:
                at = value.index(old)
                setattr(node, name, [*value[:at], *new, *value[at + 1 :]])


def answer_from(exercise: Any, source: str) -> Any:
    """Return the function of a changed source, in the namespace of the reference's module."""
    names = dict(vars(sys.modules[exercise.reference.__module__]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as "is" with a number
        exec(compile(source, f"<mutant of {exercise.id}>", "exec"), names)
    return names[exercise.reference.__name__]


def outcome(exercise: Any, source: str) -> str:
    """Return "passed", "not yet", "stopped" without an end, or "error" for no answer at all."""
    from kvstore.course.judging import judge

    try:
        answer = answer_from(exercise, source)
    except Exception:
        return "error"
    verdict = judge(exercise.id, answer)
    ended = "It was stopped" in verdict.message or "ended its process" in verdict.message
    return "stopped" if ended else verdict.outcome


def difference(source: str, changed: str) -> str:
    """Return the lines that differ."""
    lines = difflib.unified_diff(source.splitlines(), changed.splitlines(), lineterm="", n=0)
    return "\n".join(f"    {line}" for line in lines if line[:2] not in ("--", "++", "@@"))


def report(exercises: Sequence[Any], most: int) -> Iterator[tuple[Any, list[str]]]:
    """Judge the mutants of each exercise; print the share rejected and what passed.

    Yields each exercise, and its mutants that the judge rejected with a reason.
    """
    for exercise in exercises:
        source = source_of(exercise)
        judged = [
            (name, changed, found)
            for name, changed in mutants_of(source, most)
            if (found := outcome(exercise, changed)) != "error"
        ]
        through = [(name, changed) for name, changed, found in judged if found == "passed"]
        killed = len(judged) - len(through)
        share = killed / max(1, len(judged))
        print(f"{exercise.id:24} {killed:3} of {len(judged):3} rejected, {share:.0%}")
        for name, changed in through:
            print(f"  passed: {name}\n{difference(source, changed)}")
        sys.stdout.flush()
        yield exercise, [changed for _, changed, found in judged if found == "not yet"]


def main(arguments: Sequence[str]) -> int:
    """The command; see `--help`."""
    from kvstore.course.exercises import every

    parser = argparse.ArgumentParser(prog="mutants.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="such as 02 or 03.bounded (default: all)")
    parser.add_argument("--most", type=int, default=60, help="mutants of one exercise")
    parser.add_argument("--keep", action="store_true", help=f"write some to {KEPT.name}")
    options = parser.parse_args(arguments)
    chosen = [
        exercise
        for name, exercise in every().items()
        if not options.names or any(name.startswith(each) for each in options.names)
    ]
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for exercise, rejected in report(chosen, options.most):
        kept[exercise.id] = random.Random(1).sample(rejected, min(KEPT_EACH, len(rejected)))
    if options.keep:
        KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
