"""The café of Little's law: guests as bars, and a line that counts the bars it crosses."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from kvstore.course import rendering

WORDS = (
    "A café over two hours. A guest comes every 4 minutes and stays for 20 minutes on average."
    " A line at any minute crosses one bar for each guest who is inside: 5 on average, 20 / 4."
)


@dataclass(frozen=True)
class Cafe(rendering.Shown):
    """The picture as HTML with its script; in words where no script runs."""

    def __repr__(self) -> str:
        return WORDS

    def _forms(self) -> Mapping[str, Any]:
        script = resources.files(__package__).joinpath("cafe.js").read_text("utf-8")
        page = rendering.scripted(script, "showCafe", WORDS, None, kind="cafe")
        return {"text/plain": WORDS, "text/html": page}


def cafe() -> Cafe:
    """Show the café, with sliders for the time between guests and for their stay."""
    picture = Cafe()
    picture._show()
    return picture
