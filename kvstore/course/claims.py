"""Claims: sentences that a run confirms or contradicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kvstore.course import rendering

MIME_TYPE: Final = "application/vnd.kvstore.claim+json"
"""The MIME type under which the output has `{"sentence": ..., "holds": ...}` for programs."""


@dataclass(frozen=True)
class Claim(rendering.Shown):
    """A sentence and whether it holds; its truth value is `holds`."""

    sentence: str
    holds: bool

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"{'✔ holds here' if self.holds else '✘ does not hold here'}: {self.sentence}"

    def _forms(self) -> Mapping[str, Any]:
        mark = "✔ holds here:" if self.holds else "✘ does not hold here:"
        colour = rendering.GOOD if self.holds else rendering.BAD
        return {
            "text/plain": repr(self),
            "text/markdown": f"**{mark}** {rendering.markdown_escaped(self.sentence)}",
            "text/html": rendering.headline(mark, self.sentence, colour),
            MIME_TYPE: {"sentence": self.sentence, "holds": self.holds},
        }


def claim(sentence: str, holds: bool | np.bool_) -> Claim:
    """Show the sentence and whether it holds on this machine, in this run.

    Build the sentence from the run with an f-string, so that its numbers are those of the run. A
    claim that does not hold is shown and raises nothing.
    """
    if not isinstance(holds, bool | np.bool_):
        raise TypeError(
            f"holds must be True or False, got {type(holds).__name__}: "
            "pass the comparison that decides the claim, such as `measured > predicted`"
        )
    made = Claim(str(sentence), bool(holds))
    made._show()
    return made
