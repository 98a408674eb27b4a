"""Text from a file, a server or the learner reaches the page as text, never as markup."""

import dataclasses
import html.parser

import pytest
from made_runs import staircase

from kvstore.course import claim, compare, live, predict, quiz, rendering
from kvstore.course.exercises import not_yet
from kvstore.measure import Run, ServerReport
from kvstore.model import Prediction

NASTY = '<script>alert("1")</script>'
IN_CODE = "x `` <script>alert(1)</script> ` y"
"""As Markdown: two backticks and one make no code, so what stands between them is markup."""


class Tags(html.parser.HTMLParser):
    """Collects the names of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.names.add(tag)


def tags_in(text: str) -> set[str]:
    tags = Tags()
    tags.feed(text)
    return tags.names


@pytest.fixture
def nasty(tmp_path) -> Run:
    """A run from a file whose writer put markup into every text."""
    made = dataclasses.replace(
        staircase(40, in_flight=2, stations=True),
        strategy=NASTY,
        started_at=NASTY,
        settings={"workload": NASTY, "deadline_s": 1.0, NASTY: NASTY},
        server=ServerReport(identity=NASTY, versions={NASTY: NASTY}, operations={NASTY: 40}),
        host={"cores": 2, NASTY: NASTY},
    )
    return Run.load(made.save(tmp_path / "run.npz"))


@pytest.mark.usefixtures("lesson_97")
def test_what_the_page_shows_of_a_run_has_no_markup_of_its_file(nasty, page, monkeypatch):
    monkeypatch.setattr(live, "_has_page", lambda: True)
    view = live.View(NASTY, 1.0, None)
    monkeypatch.setattr(view, "_put", lambda bundle, metadata=None: page.append(bundle))
    view.finish(nasty)
    predict("97.nasty", 10)
    compare("97.nasty", 10.0, Prediction(9.0, NASTY, NASTY, NASTY))
    claim(NASTY, holds=True)
    claim(IN_CODE, holds=False)
    not_yet(NASTY)._show()
    quiz("97.cores", "b")  # its explanation has a tag
    shown = [bundle["text/html"] for bundle in page if "text/html" in bundle]
    shown += [
        rendering.inline(IN_CODE),
        rendering.headline("!", NASTY, "red"),
        rendering.table([NASTY, "b"], [[NASTY, NASTY]]),
        live.progress_view(NASTY, [0.0], [1.0], [1.0], part=None, text=NASTY),
    ]

    assert len(shown) >= 11
    assert not [each for each in shown if "<b>." in each]
    assert any("&lt;script&gt;" in each for each in shown)
    assert "script" not in set().union(*map(tags_in, shown))


def test_markdown_has_no_markup_outside_of_code():
    """Rendered as the front end does: by a Markdown that lets HTML through."""
    mistune = pytest.importorskip("mistune")
    render = mistune.create_markdown(escape=False)

    for text in (NASTY, IN_CODE, f"`a\n\n{NASTY}`", f"`{NASTY}``", f"``{NASTY}`"):
        assert "script" not in tags_in(render(rendering.markdown_escaped(text))), text
