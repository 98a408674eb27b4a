"""A question with its possible answers: the learner chooses by unfolding one."""

from collections.abc import Mapping, Sequence

from kvstore.course import rendering


def quiz(
    question: str,
    options: Sequence[str] | Mapping[str, str],
    answer: str | int,
    why: str,
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
