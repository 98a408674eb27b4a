"""Make an executed lesson ask first: votes, quizzes and comparisons that `asks.js` brings to life.

Each `predict` and `quiz` cell becomes a question with its data, each comparison the numbers of the
run. Without JavaScript the page shows all of it in words. What only makes sense where a cell can be
run leaves the text.
"""

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nbformat import NotebookNode

from kvstore import numbers
from kvstore.course import comparisons, curves, exercises, questions, rendering
from kvstore.course.questions import Curve, PredictionQuestion, QuizQuestion

ROOT: Final = Path(__file__).resolve().parent.parent
STATIC: Final = ROOT / "docs" / "site" / "_static"
CURVE: Final = ROOT / "kvstore" / "course" / "curve.js"
SCRIPTS: Final = (CURVE, STATIC / "asks.js")
STYLE: Final = STATIC / "asks.css"
NO_SCRIPT: Final = (
    '<noscript><p class="rpc-note"><b>JavaScript is off</b>, so each run stands below its '
    "question. Decide on a number before you read on.</p></noscript>"
)
NO_INPUT: Final = "remove-input"
"""The tag of cells whose code is not shown."""

_CALL: Final = r"^(?:\w+ = )?{}\(\s*\"([^\"]+)\""
_NEEDS_A_KERNEL: Final = re.compile(
    r"^stuck\?$|\breplace `None`|\bnew cell\b|\bcells? of your own\b|<kbd>|\btoolbar\b|■"
    r"|\bthe (?:sliders|button)\b|\bbuttons\b|`(?:hint|solution|predict|again|quiz)\("
    r"|\brun\*?\*? (?:this|the|both) (?:next |two )?cells?\b"
    r"|\bin it; again\b|\brun it\b|\brepeat the cell\b|\bbefore you run\b",
    re.IGNORECASE,
)
_BAR: Final = re.compile(r"\d%\|")
"""What a progress bar leaves behind."""
_AGAIN: Final = re.compile(
    r"(?::|, or) (?:close them and run again|repeat the run|run longer[^.<]*)(?=\.)"
)
"""What a learner could do about a doubt, in the words of a run."""
_CURVE: Final = re.compile(r'showCurve\(document\.getElementById\("[^"]+"\), (\{.*\})\);$', re.M)


def asks_first(notebook: NotebookNode) -> None:
    """Change the executed notebook in place."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = readable(cell.source)
        elif cell.cell_type == "code":
            _prepare(cell)


def for_a_projector(notebook: NotebookNode) -> None:
    """Take away what a room need not read: the set-up, the lesson's place in the course, exercises.

    Call `asks_first` before.
    """
    headings = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            headings += bool(re.search(r"^##? ", cell.source, re.MULTILINE))
            cell.source = re.sub(
                r"^(?:You need|Minutes:)[^\n]*(?:\n\S[^\n]*)*\n*", "", cell.source, flags=re.M
            )
        elif headings < 2 and not cell.source.startswith("predict"):
            cell.metadata["tags"] = [*cell.metadata.get("tags", ()), NO_INPUT]
            if re.search(r"^lesson\(", cell.source, re.MULTILINE):
                cell.outputs = []
        elif called(cell, "check"):
            cell.outputs = []


def called(cell: NotebookNode, name: str) -> list[str]:
    """Return the first argument of each call of this function that begins a line of the cell."""
    if cell.cell_type != "code":
        return []
    return re.findall(_CALL.format(name), cell.source, re.MULTILINE)


def readable(text: str) -> str:
    """Return the Markdown without the sentences that ask for something only a kernel can do."""
    kept, fenced = [], False
    for paragraph in re.split(r"(\n\s*\n)", text):
        starts = paragraph.count("```") % 2 == 1
        if fenced or starts or paragraph.lstrip()[:1] in ("|", "#") or "```" in paragraph:
            kept.append(paragraph)
        else:
            kept.append("\n".join(map(_sentences, _items(paragraph))) or "")
        fenced ^= starts
    return re.sub(r"\n{3,}", "\n\n", "".join(kept)).strip("\n")


def _items(paragraph: str) -> list[str]:
    """The items of a list, each with its lines; the paragraph, where it is none."""
    return re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", paragraph)


def _sentences(item: str) -> str:
    parts = re.split(r"((?<=[.!?])[*_)]*\s+)", item)
    sentences = zip(parts[::2], [*parts[1::2], ""], strict=True)
    kept = [(each, space) for each, space in sentences if not _NEEDS_A_KERNEL.search(each)]
    if len(kept) == len(parts[::2]):
        return item
    left = "".join(each + space for each, space in kept).rstrip()
    return "" if re.fullmatch(r"\*\*[^*]*\*\*", left) else left  # "**Help.**" without its text


def _prepare(cell: NotebookNode) -> None:
    asked = [questions.registered(each) for each in called(cell, "predict")]
    quizzes = [each for name in called(cell, "quiz") for each in questions.asked(name)]
    if asked or quizzes:
        shown = "".join([*map(_vote, asked), *map(_quiz, quizzes)])
        cell.outputs = [_output(shown)]
    elif exercise_ids := called(cell, "check"):
        cell.outputs = [_output("".join(map(_exercise, exercise_ids)))]
    else:
        kept = [each for each in cell.get("outputs", ()) if not _BAR.search(_words(each))]
        cell.outputs = [_compared(each) for each in kept]
        return
    code = [line for line in cell.source.splitlines() if line.strip()]
    if all(re.match(r"(?:predict|quiz|check)\(", line) for line in code):
        cell.metadata["tags"] = [*cell.metadata.get("tags", ()), NO_INPUT]


def _words(output: NotebookNode) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


def _output(text: str) -> NotebookNode:
    return NotebookNode(
        output_type="display_data",
        metadata=NotebookNode(),
        data=NotebookNode({"text/html": text, "text/plain": re.sub(r"<[^>]*>", "", text)}),
    )


def _element(kind: str, data: Mapping[str, Any], words: str) -> str:
    attribute = html.escape(json.dumps(data, allow_nan=False))
    return f'<div class="rpc-{kind}" data-{kind}="{attribute}">{words}</div>'


def _vote(known: PredictionQuestion) -> str:
    data: dict[str, Any] = {"id": known.id, "text": known.text, "unit": known.unit}
    if isinstance(known, Curve):
        data["curve"] = curves.facts(known, {}, locked=False, message="")
    text = rendering.inline(known.text)
    return _element("ask", data, f"<p><b>Predict.</b> {text} ({rendering.escaped(known.unit)})</p>")


def _quiz(question: QuizQuestion) -> str:
    options = [
        {
            "letter": letter,
            "text": rendering.inline(option.text),
            "why": rendering.inline(option.why),
            "right": option.right,
        }
        for letter, option in question.lettered.items()
    ]
    lines = "".join(f"<li>{each['letter']}) {each['text']}</li>" for each in options)
    right = next(each for each in options if each["right"])
    answer = f"<summary>Answer</summary>{right['letter']}) {right['why']}"
    text = rendering.inline(question.text)
    words = f"<p><b>{text}</b></p><ul>{lines}</ul><details>{answer}</details>"
    return _element("quiz", {"id": question.id, "text": text, "options": options}, words)


def _exercise(exercise_id: str) -> str:
    exercises.find(exercise_id)
    return (
        f"<p><b>Exercise {exercise_id}.</b> You write this function in JupyterLab, where it is "
        "tried.</p>"
    )


def _compared(output: NotebookNode) -> NotebookNode:
    """Return the output; of a comparison, one into which the reader's number can be put."""
    published = output.get("data", {}).get(comparisons.MIME_TYPE)
    if published is None:
        data = output.get("data", {})
        for mime in {"text/html", "text/plain"} & set(data):
            data[mime] = _AGAIN.sub("", data[mime])
        return output
    facts = _CURVE.search(output["data"]["text/html"])
    data = {name: published[name] for name in ("question_id", "unit", "model", "measured")}
    data["bands"] = [[each if each < 1e9 else None, words] for each, words in comparisons.BANDS]
    known = questions.registered(data["question_id"])
    mistakes = [(n, rendering.inline(rendering.as_sentence(why))) for n, why in known.mistakes]
    data |= {"mistakes": mistakes, "near": questions.SAME, "far_off": known.far_off}
    if facts:
        data["curve"] = json.loads(facts[1])
        data["measured"] = data["curve"]["dots"][-1][1]
    values = {"the model": data["model"], "measured": data["measured"]}
    words = ", ".join(
        f"{name} {numbers.number(value)} {rendering.escaped(data['unit'])}"
        for name, value in values.items()
        if value is not None
    )
    return _output(_element("compared", data, f"<p>{words}</p>"))
