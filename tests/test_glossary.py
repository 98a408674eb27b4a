"""docs/glossary.md: one meaning for each symbol, links that resolve, and the lessons' terms."""

import json
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
CELLS = [
    [cell.strip() for cell in row.strip("|").split("|")]
    for row in PAGE.splitlines()
    if row.startswith("| ") and "---" not in row
]
SYMBOLS = [row for row in CELLS if len(row) == 3 and row[0] != "symbol"]
TERMS = [row for row in CELLS if len(row) == 4 and row[0] != "term"]
DEFINED = re.compile(
    r"(?:^|[.:;] |\b[Aa]n? |\bThe )\*\*([a-z][\w' -]+)\*\* (?:is|are|means)\b", re.M
)
"""How a lesson defines a term: `A **call** is one request and its reply.`"""


def test_each_row_is_a_symbol_or_a_term():
    assert {len(row) for row in CELLS} == {3, 4}
    assert len(TERMS) >= 60


def test_one_symbol_stands_for_one_quantity_and_one_quantity_has_one_symbol():
    symbols = Counter(symbol for symbol, _, _ in SYMBOLS)
    quantities = Counter(quantity for _, quantity, _ in SYMBOLS)

    assert [each for each, count in (symbols + quantities).items() if count > 1] == []
    assert {"X", "N", "R", "D", "D_max", "S", "Z", "U", "λ", "L"} <= set(symbols)
    assert "W" not in symbols
    assert "W is then the time in the system" in PAGE


def test_the_terms_use_the_symbols_of_the_sheet_in_its_units():
    units = {symbol: unit for symbol, _, unit in SYMBOLS}
    wrong = []
    for term, how, _, _ in TERMS:
        *symbols, unit = re.split(r", | or ", how) if "," in how else [how]
        wrong += [f"{term}: {symbol}, {unit}" for symbol in symbols if units.get(symbol) != unit]
    quantities = {quantity: symbol for symbol, quantity, _ in SYMBOLS}
    for term, how, _, _ in TERMS:
        if term in quantities and how.split(",")[0] != quantities[term]:
            wrong.append(f"{term}: {how}")

    assert wrong == []


def test_each_term_stands_once_with_one_sentence_and_a_lesson():
    terms = Counter(term.lower() for term, *_ in TERMS)

    assert [term for term, count in terms.items() if count > 1] == []
    for term, _, meaning, lesson in TERMS:
        assert re.fullmatch(r"[A-Z0-9].*\.", meaning), term
        assert not re.search(r"[.!?] [A-Z]", meaning), f"{term}: one sentence"
        assert len(meaning.split()) <= 25, term
        assert re.fullmatch(r"\[\d\d\]", lesson), term


def test_links_resolve_and_each_lesson_introduces_a_term():
    links = dict(re.findall(r"^(\[\d\d\]): (\S+)$", PAGE, re.M))

    assert {lesson for *_, lesson in TERMS} == set(links)
    assert [link for link in links.values() if not (ROOT / "docs" / link).is_file()] == []
    assert [number for number, link in links.items() if f"/{number[1:-1]}_" not in link] == []


def test_the_terms_that_the_lessons_define_in_bold_are_here():
    """Emphasis is no definition; write it in a sentence of another form, or in italics."""
    known = {term.lower() for term, *_ in TERMS}
    defined = {
        (path.stem, term)
        for path in sorted((ROOT / "notebooks").rglob("*.ipynb"))
        if path.parent.name != ".ipynb_checkpoints"
        for cell in json.loads(path.read_bytes())["cells"]
        if cell["cell_type"] == "markdown"
        for term in DEFINED.findall("".join(cell["source"]).replace("\n", " "))
    }

    assert ("00_start_here", "call") in defined, "the pattern finds definitions"
    assert [(where, term) for where, term in sorted(defined) if term.lower() not in known] == []
