"""A claim says whether it holds, and each claim of a lesson can be false."""

import ast
import builtins

import numpy as np
import pytest
from lessons import NOTEBOOKS, cells_of

from kvstore.course import claim, comparisons


def test_a_claim_says_whether_it_holds_and_counts_as_that(page):
    for holds, words in ((True, "✔ holds here"), (False, "✘ does not hold")):
        assert holds == bool(claim("x < 3", holds))
        forms = [page[-1][f"text/{form}"] for form in ("plain", "html", "markdown")]
        assert all(words in form for form in forms)


def test_programs_can_read_a_claim(page):
    claim("x < 3", np.bool_(True))

    assert page[-1][comparisons.CLAIM_MIME_TYPE] == {"sentence": "x < 3", "holds": True}
    assert bool is type(page[-1][comparisons.CLAIM_MIME_TYPE]["holds"])


def test_a_claim_needs_a_decision(page):
    with pytest.raises(TypeError, match="True or False, got float"):
        claim("it is fast", 0.97)


def claims_of(cells):
    """The condition of each claim in these cells, with the names that the cells have set."""
    for cell in cells:
        for node in ast.walk(cell.tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "claim":
                named = {each.arg: each.value for each in node.keywords}
                yield node.args[1] if len(node.args) > 1 else named["holds"]


def settled(condition, values):
    """Whether a condition is the same in every run; `values` has what the lesson sets by name."""
    if isinstance(condition, ast.Name):
        made = values.get(condition.id, [])
        return bool(made) and all(settled(each, values) for each in made)
    if isinstance(condition, ast.BoolOp):
        each = [settled(part, values) for part in condition.values]
        return any(each) if isinstance(condition.op, ast.Or) else all(each)
    if isinstance(condition, ast.UnaryOp):
        return settled(condition.operand, values)
    if isinstance(condition, ast.Compare):
        sides = [condition.left, *condition.comparators]
        same = len({ast.dump(side) for side in sides}) < len(sides)
        return same or all(settled(side, values) for side in sides)
    names = {node.id for node in ast.walk(condition) if isinstance(node, ast.Name)}
    return names <= set(dir(builtins))


def set_by(cells):
    """What cells set, by name: the expressions on the right of each plain assignment."""
    values = {}
    for cell in cells:
        for node in ast.walk(cell.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
    return values


def cannot_be_false(cells):
    """The conditions that no run makes false."""
    values = set_by(cells)
    return [ast.unparse(each) for each in claims_of(cells) if settled(each, values)]


@pytest.mark.parametrize("lesson", NOTEBOOKS)
def test_each_claim_of_a_lesson_can_be_false(lesson):
    assert [] == cannot_be_false(cells_of(lesson))
