"""Write the camps of each vote into the teachers' notes: `python -m tools.camps`.

They come from `kvstore/course/lessons/camps.toml`, as those that the page of a class shows. The
table of a lesson stands in `docs/teaching/NN.md` between `<!-- votes -->` and `<!-- end -->`.
"""

from pathlib import Path
from typing import Final

from kvstore.course.questions import predictions_of
from kvstore.course.rendering import as_sentence

NOTES: Final = Path(__file__).resolve().parent.parent / "docs" / "teaching"
BEGIN: Final = "<!-- votes -->"
END: Final = "<!-- end -->"


def votes(lesson: str) -> str:
    """Return the table of the votes of a lesson: what each camp thinks, and what to ask it."""
    lines = ["| vote | camp | what they think | what to ask or say |", "| --- | ---: | --- | --- |"]
    for question in predictions_of(lesson):
        vote = f"`{question.id}`: {question.text}"
        for camp, thinks, lacks, ask in question.camps:
            number = camp if isinstance(camp, str) else f"{camp:,} {question.unit}"
            lines.append(f"| {vote} | {number} | {thinks or as_sentence(lacks)} | {ask} |")
            vote = ""
    return "\n".join(lines)


def with_camps(notes: Path) -> str:
    """Return the text of a lesson's notes with the camps of today."""
    before, begin, rest = notes.read_text("utf-8").partition(BEGIN)
    table = f"\n\n{votes(notes.stem)}\n\n" if begin else ""
    return f"{before}{begin}{table}{END if begin else ''}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for page in NOTES.glob("[0-9]*.md"):
        page.write_text(with_camps(page), "utf-8", newline="\n")
