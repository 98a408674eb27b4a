"""The page of the architecture and the maps in packages' docstrings name what exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted((ROOT / "kvstore").rglob("__init__.py"))


def test_each_name_of_the_page_exists():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("kvstore/**/*.py"))
    words = set(re.findall(r"\w+", source))
    for name in re.findall(r"`\.?([\w./]+)`", prose):
        exists = (ROOT / name).exists() if "/" in name else words.issuperset(name.split("."))
        assert exists, name


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_each_module_of_a_map_exists(package):
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    for names in re.findall(r"^ {2,4}(\w+(?:, \w+)*) {2,}\S", text, flags=re.MULTILINE):
        for name in names.split(", "):
            place = package.parent / name
            assert place.is_dir() or place.with_suffix(".py").exists(), name
