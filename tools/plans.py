"""Write plans, camps and figures into the teachers' pages: `python -m tools.plans [--fix]`.

The plans are those of `docs/plans.toml`, the camps those of `lesson.toml` of each lesson. A page
has a table between `<!-- plan: NAME -->` and `<!-- end -->`. Without `--fix`, the tables are
compared. A plan that does not fit its time, or takes a lesson before one that it needs, is refused.

`python -m tools.plans --figures [03 ...]` measures: it executes each lesson whose copy in
`executed/` is not current, and writes what was predicted and measured, with day and machine. Use a
quiet one.
"""

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kvstore.course import comparisons
from kvstore.course.lessons import LESSONS, parts
from kvstore.course.questions import predictions_of
from kvstore.course.rendering import as_sentence
from kvstore.numbers import number
from tools import pages

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "docs" / "plans.toml"
PAGES: Final = (
    ROOT / "docs" / "teaching.md",
    *sorted((ROOT / "docs" / "teaching").glob("*.md")),
)
END: Final = "<!-- end -->"
FIGURES: Final = "## Reference figures\n\n<!-- figures -->"


class Plans:
    """The plans, and the tables that they give."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self._source = source
        self._lessons: Mapping[str, Any] = source["lessons"]
        if unknown := {*self._lessons} ^ {*LESSONS}:
            raise ValueError(f"plans.toml must have each core lesson once, see {sorted(unknown)}")

    def minutes(self, lesson: str, without: Iterable[str] = ()) -> int:
        """Return the minutes of a lesson in class, with discussion and without what is left out."""
        of_lesson = self._lessons[lesson]
        saved = of_lesson["without"]
        if unknown := [each for each in without if each not in saved]:
            raise ValueError(f"lesson {lesson} has no {unknown[0]!r} to leave out: {[*saved]}")
        left: float = of_lesson["minutes"] - sum(saved[each] for each in without)
        return round(left * (1 + float(self._source["discussion"])))

    def lessons(self) -> str:
        """The table of the lessons."""
        rows = [
            [
                f"`{LESSONS[name]}`",
                of["minutes"],
                self.minutes(name),
                "all before" if len(of["needs"]) > 10 else ", ".join(of["needs"]),
                "; ".join(f"{what} ({saved})" for what, saved in of["without"].items()),
            ]
            for name, of in self._lessons.items()
        ]
        return _table(
            ["lesson", "minutes :", "with discussion :", "needs", "can be left out (minutes)"], rows
        )

    def parts(self) -> str:
        """The table of the parts of the course."""
        rows = [
            [title, ", ".join(names), sum(map(self.minutes, names))]
            for title, names in parts().items()
        ]
        return _table(["part", "lessons", "minutes with discussion :"], rows)

    def sheet(self, name: str) -> str:
        """The run sheet of one sitting, with what to do in a row that begins late."""
        plan = self._source[name]
        self._in_order(name, [each["lesson"] for each in plan["rows"] if "lesson" in each])
        hours, first = map(int, plan["starts"].split(":"))
        at, rows = 60 * hours + first, []
        for each in plan["rows"]:
            lesson, left_out = each.get("lesson", ""), each.get("without", [])
            takes = self.minutes(lesson, left_out) if lesson else each["minutes"]
            texts = (each["step"], ", ".join(left_out), each.get("late", ""))
            rows.append([_clock(at), lesson, takes, *texts])
            at += takes
        if at > 60 * hours + first + plan["minutes"]:
            raise ValueError(f"{name} ends at {_clock(at)}, later than it may: leave more out")
        rows.append([_clock(at), "", "", "End", "", ""])
        head = ["begins by :", "lesson", "minutes :", "step", "homework", "if it begins later"]
        return _table(head, rows)

    def term(self) -> str:
        """The table of the weeks of a term."""
        term = self._source["term"]
        self._in_order("term", [name for week in term["weeks"] for name in week["lessons"]])
        rows = []
        for place, week in enumerate(term["weeks"], start=1):
            takes = sum(
                self.minutes(name, self._of(name, week["homework"])) for name in week["lessons"]
            )
            if takes > term["minutes"]:
                raise ValueError(f"week {place} takes {takes} minutes: leave more for homework")
            names, homework = ", ".join(week["lessons"]), "; ".join(week["homework"])
            rows.append([place, names, takes, homework, week["marks"]])
        return _table(["week :", "lessons", "minutes :", "homework", "for marks"], rows)

    def _of(self, lesson: str, homework: Sequence[str]) -> list[str]:
        return [each for each in homework if each in self._lessons[lesson]["without"]]

    def _in_order(self, plan: str, names: Sequence[str]) -> None:
        had = set(self._source[plan].get("told", ()))
        for name in names:
            if missing := set(self._lessons[name]["needs"]) - had:
                raise ValueError(f"{plan}: lesson {name} needs {sorted(missing)} before it")
            had.add(name)


def votes(lesson: str) -> str:
    """The table of the votes of a lesson: what each camp thinks, and what to ask it."""
    rows = []
    for each in predictions_of(lesson):
        text = f"`{each.id}`: {each.text}"
        for camp, thinks, lacks, ask in each.camps:
            shown = camp if isinstance(camp, str) else f"{camp:,} {each.unit}"
            rows.append([text, shown, thinks or as_sentence(lacks), ask])
            text = ""
    return _table(["vote", "camp :", "what they think", "what to ask or say"], rows)


def with_figures(page: str, lesson: Path) -> str:
    """Return the page of a lesson with the model and the measurement of each of its votes."""
    notebook = pages.executed(lesson)
    rows = [
        [
            f"`{each['question_id']}`, {each['unit']}",
            *map(_number, (each["model"], each["measured"])),
        ]
        for output in pages.outputs(notebook)
        if (each := output.get("data", {}).get(comparisons.MIME_TYPE)) and "measured" in each
    ]
    table = _table(["vote", "model :", "measured :"], rows)
    before, heading, after = page.partition(FIGURES.partition("\n")[0])
    after = after.partition(END)[2] if (heading + after).startswith(FIGURES) else after
    return f"{before}{FIGURES}\n\n{pages.machine(notebook)}\n\n{table}\n\n{END}{after}"


def _number(value: float | None) -> str:
    return "" if value is None else number(value)


def _clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of Markdown; a head that ends with a colon has numbers below it."""
    lines = [
        [each.removesuffix(" :") for each in head],
        ["---:" if each.endswith(":") else "---" for each in head],
        *([str(cell) for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def written(page: str, plans: Plans) -> str:
    """Return the text of a page with the tables of the plans."""
    make: dict[str, Callable[[], str]] = {
        "lessons": plans.lessons,
        "parts": plans.parts,
        "term": plans.term,
    }
    pieces = page.split("<!-- plan: ")
    for place, piece in enumerate(pieces[1:], start=1):
        name = piece.partition(" -->")[0]
        if name.startswith("votes "):
            table = votes(name.removeprefix("votes "))
        else:
            table = make[name]() if name in make else plans.sheet(name)
        pieces[place] = f"{name} -->\n\n{table}\n\n{END}{piece.partition(END)[2]}"
    return "<!-- plan: ".join(pieces)


def main(arguments: Sequence[str]) -> int:
    """Compare or write the pages; the exit status is 1 if one differs."""
    if "--figures" in arguments:
        for name in [each for each in arguments if each != "--figures"] or LESSONS:
            page = ROOT / "docs" / "teaching" / f"{name}.md"
            lesson = ROOT / "notebooks" / f"{LESSONS[name]}.ipynb"
            page.write_text(with_figures(page.read_text("utf-8"), lesson), "utf-8", newline="\n")
        return 0
    plans, differ = Plans(tomllib.loads(SOURCE.read_text("utf-8"))), []
    for page in PAGES:
        before = page.read_text("utf-8")
        after = written(before, plans)
        if after != before and "--fix" in arguments:
            page.write_text(after, "utf-8", newline="\n")
        elif after != before:
            differ.append(page.name)
    if differ:
        print(f"{', '.join(differ)}: not as their source: `python -m tools.plans --fix`")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
