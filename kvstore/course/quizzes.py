"""Questions with options: the first choice counts, and each option is explained."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from IPython.core.getipython import get_ipython

from kvstore.course import progress, questions, rendering
from kvstore.course.questions.base import QuizQuestion


def quiz(
    question: str,
    options: str | Sequence[str] | Mapping[str, str] | None = None,
    answer: str | int | None = None,
    why: str = "",
) -> None:
    """Ask the quiz questions of a lesson, or answer one of them.

    `quiz("03")` shows the questions of lesson 03, `quiz("03.double")` one of them: as radio buttons
    where the notebook shows widgets, as text elsewhere. `quiz("03.double", "b")` chooses option b.
    The first choice is kept and scored; a later one only shows its explanation.
    LookupError for an unknown question, ValueError for a letter that is none of its options.

    With `answer` it shows a question that is not registered, and says of each option that is
    unfolded whether it is right, and `why`; see `_folded`.
    """
    if answer is not None:
        if options is None or isinstance(options, str):
            raise ValueError(f"a quiz needs two or more different options, got {options!r}")
        _folded(question, options, answer, why)
    elif options is None:
        _ask(_meant(question))
    elif isinstance(options, str):
        rendering.show(_verdict(questions.registered_quiz(question), options))
    else:
        raise ValueError(f'the option chosen is one letter, as in `quiz("{question}", "a")`')


# ---- questions by their ids ----------------------------------------------------------------------


def _meant(name: str) -> tuple[QuizQuestion, ...]:
    if not re.fullmatch(r"\d\d", name):
        return (questions.registered_quiz(name),)
    found = questions.quiz_of(name)
    if not found:
        raise LookupError(f"lesson {name} has no quiz: look up its number in the map of lesson 00")
    return found


def _ask(asked: Sequence[QuizQuestion]) -> None:
    """Show the questions; where one was answered already, with what became of it."""
    chosen = progress.choices()
    plain, rich = [], []
    for question in asked:
        how = f'Answer with a letter, such as `quiz("{question.id}", "a")`.'
        letters = [f"{letter}) {option.text}" for letter, option in question.lettered.items()]
        done = [_words(question, chosen[question.id])] if question.id in chosen else []
        plain.append("\n".join([question.text, *(f"  {each}" for each in letters), how, *done]))
        rich.append(
            f"<p><b>{rendering.inline(question.text)}</b><br>"
            f"{'<br>'.join(map(rendering.inline, letters))}<br>{rendering.inline(how)}</p>"
            + (_html(question, chosen[question.id]) if done else "")
        )
    bundle: dict[str, Any] = {"text/plain": "\n\n".join(plain), "text/html": "".join(rich)}
    if hasattr(get_ipython(), "kernel"):
        bundle |= _widget(asked, chosen)
    rendering.show(bundle)


def _widget(asked: Sequence[QuizQuestion], chosen: Mapping[str, str]) -> dict[str, Any]:
    """One group of radio buttons for each question, and below it what is said of the choice.

    Only the texts of questions and options go to the page: verdicts come when one is chosen.
    """
    import ipywidgets as widgets  # late: it takes memory, and a plain Python needs none

    def group(question: QuizQuestion) -> Any:
        buttons = widgets.RadioButtons(
            options=[(f"{letter}) {o.text}", letter) for letter, o in question.lettered.items()],
            value=chosen.get(question.id),
            layout={"width": "auto"},
        )
        said = widgets.HTML(_html(question, chosen[question.id]) if question.id in chosen else "")

        def choose(change: Mapping[str, Any]) -> None:
            if change["new"] is not None:
                said.value = _verdict(question, change["new"])["text/html"]

        buttons.observe(choose, names="value")
        text = widgets.HTML(f'<b style="{rendering.LINES}">{rendering.inline(question.text)}</b>')
        return widgets.VBox([text, buttons, said])

    return dict(widgets.VBox([group(each) for each in asked])._repr_mimebundle_())


def _verdict(question: QuizQuestion, letter: str) -> dict[str, str]:
    """Keep the choice if it is the first, and say what is to be said of it."""
    option = question.lettered.get(letter)
    if option is None:
        raise ValueError(
            f"{question.id} has the options {', '.join(question.lettered)}, got {letter!r}: "
            "write one of these letters in quotes"
        )
    first = progress.keep_choice(question.id, letter, option.right)
    return {
        "text/plain": _words(question, letter, first),
        "text/html": _html(question, letter, first),
    }


def _parts(question: QuizQuestion, letter: str, first: str | None) -> tuple[str, str]:
    option = question.lettered.get(letter)
    if option is None:  # the question was changed since
        return "○", f"You chose {letter}, which is no longer an option."
    later = f" (Your first choice, {first}, is the one that counts.)" if first != letter else ""
    again = "" if option.right else " Choose again, to see the explanation of another option."
    return "✔ Yes." if option.right else "✘ No.", f"{letter}) {option.why}{later}{again}"


def _words(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    return " ".join(_parts(question, letter, first or letter))


def _html(question: QuizQuestion, letter: str, first: str | None = None) -> str:
    mark, text = _parts(question, letter, first or letter)
    colour = rendering.GOOD if mark.startswith("✔") else rendering.BAD
    return f'<p style="line-height: 1.45">{rendering.headline(mark, text, colour)}</p>'


# ---- questions that the cell holds ---------------------------------------------------------------


def _folded(
    question: str, options: Sequence[str] | Mapping[str, str], answer: str | int, why: str
) -> None:
    """Show the question; unfolding an option says whether it is right, and why.

    `answer` is the right option, or its place counted from 0. `options` may map each
    option to what is said of it when it is wrong. Folding is plain HTML: it needs no
    JavaScript and no trusted notebook. ValueError when `answer` is not an option.
    """
    texts = list(options)
    if len(texts) < 2 or len(set(texts)) != len(texts):
        raise ValueError(f"a quiz needs two or more different options, got {texts}")
    right = _place(texts, answer)
    said = dict(options) if isinstance(options, Mapping) else {}
    rows = [
        _option(text, place == right, why if place == right else said.get(text, ""))
        for place, text in enumerate(texts)
    ]
    letters = [f"  {chr(97 + place)}) {text}" for place, text in enumerate(texts)]
    rendering.show(
        {
            "text/plain": "\n".join([question, *letters, f"Answer: {chr(97 + right)}) {why}"]),
            "text/html": f"<p><b>{rendering.inline(question)}</b></p>{''.join(rows)}",
        }
    )


def _place(texts: Sequence[str], answer: str | int) -> int:
    if isinstance(answer, str) and answer in texts:
        return texts.index(answer)
    if isinstance(answer, int) and not isinstance(answer, bool) and 0 <= answer < len(texts):
        return answer
    raise ValueError(f"answer must be one of the options or its place from 0, got {answer!r}")


def _option(text: str, right: bool, reason: str) -> str:
    mark, colour = ("✔ Yes.", rendering.GOOD) if right else ("✘ No.", rendering.BAD)
    verdict = rendering.headline(mark, reason or "Try another one.", colour)
    return f"<details><summary>{rendering.inline(text)}</summary><p>{verdict}</p></details>"
