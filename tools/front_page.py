"""Write the front page of the site: five published benchmarks, and the replay of a run made now.

The page is one file. Its texts and numbers are in `docs/site/front/five.toml`; what follows from
them by L = X·R is computed here.
"""

import json
import tomllib
from collections.abc import Collection, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import jinja2
import mistune
from markupsafe import Markup

from kvstore.client import load, strategies, workload
from kvstore.course.replays import replay_of
from kvstore.measure import Run
from kvstore.measure.host import host_in_words
from kvstore.server import serving
from tools import run_notebooks

SOURCES: Final = Path(__file__).resolve().parent.parent / "docs" / "site" / "front"
IN_FLIGHT, SECONDS = 20, 2.0
LOCKS: Final = {"one lock": "global", "a lock for each key": "per_key"}
_html_of: Final = mistune.create_markdown(plugins=["table"])


def runs() -> dict[str, Run]:
    """Run the course's client against both servers, with the delays of the Java store."""
    runs_by_lock = {}
    for name, locking in LOCKS.items():
        with serving(locking=locking, station_times=True, use_asyncio=True) as server:
            runs_by_lock[name] = load.run(
                strategies.bounded,
                server,
                workload.crud(seed=3),
                in_flight=IN_FLIGHT,
                duration_s=SECONDS,
            )
    return runs_by_lock


def cards() -> list[dict[str, Any]]:
    """Return the cards of five.toml, each with what follows from its numbers."""
    read: list[dict[str, Any]] = tomllib.loads((SOURCES / "five.toml").read_text("utf-8"))["cards"]
    for card in read:
        card["law"] = [complete(line) for line in card["law"]]
        for row in card.get("rows", ()):
            row["in_flight"] = round(row["X"] * row["R"] / 1e3)
    return read


def complete(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line with all of L, X (calls/s) and R (ms); two of them are given."""
    completed = dict(line)
    if "R" not in line:
        completed["R"] = 1e3 * line["L"] / line["X"]
    elif "L" not in line:
        completed["L"] = line["X"] * line["R"] / 1e3
    else:
        completed["X"] = line["L"] / line["R"] * 1e3
    return completed


def shown_run(copies: Path = run_notebooks.COPIES) -> dict[str, Any]:
    """Return the replay of `runs()`: of an earlier build if the package is the same, else new.

    `panels` are what `replay.js` draws, `words` say the same, and `made` names the machine.
    """
    kept = copies / "front.json"
    if kept.is_file():
        shown: dict[str, Any] = json.loads(kept.read_text("utf-8"))
        if shown["code"] == run_notebooks.code_version():
            return shown
    replay = replay_of(runs(), start_s=0.3)
    shown = {
        "code": run_notebooks.code_version(),
        "made": f"Measured on {date.today()}, on {host_in_words()}.",
        "words": repr(replay),
        "panels": replay.panels(),
    }
    copies.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(shown, allow_nan=False), "utf-8")
    return shown


def write(out: Path, lessons: Collection[str], run: Mapping[str, Any]) -> Path:
    """Write `index.html` into `out` and return it.

    `lessons` are the pages that it may link to, and `run` is what `shown_run` returns.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SOURCES), autoescape=jinja2.select_autoescape()
    )
    example = complete({"L": 1, "X": 16.55})
    text = environment.get_template("front.html").render(
        style=_raw(SOURCES / "front.css"),
        script=_raw(SOURCES / "front.js"),
        replay_js=_raw(SOURCES.parents[2] / "kvstore" / "course" / "replay.js"),
        panels=_safe(json.dumps(run["panels"])),
        words=run["words"],
        in_flight=IN_FLIGHT,
        made=run["made"],
        law={
            **{name: _number(example[name]) for name in "LXR"},
            "says": f"16.55 calls end each second, and each takes {_number(example['R'])} ms:"
            " 1 in flight.",
        },
        cards=[_html(card, lessons) for card in cards()],
    )
    file = out / "index.html"
    file.write_text(text, "utf-8")
    return file


def _html(card: Mapping[str, Any], lessons: Collection[str]) -> dict[str, Any]:
    """Return the card as the template shows it."""
    asked = ("answer", "within", "unit", "right", "low", "high", "camps")
    lesson = f"lessons/{card['lesson']}.html"
    finds = str(_html_of(card["finds"].replace("{rows}", _table(card.get("rows", ())))))
    wide = finds.replace("<table>", '<div class="wide" tabindex="0"><table>')
    return {
        **card,
        "data": json.dumps({name: card[name] for name in asked}),
        "setup": _safe(str(_html_of(card["setup"]))),
        "finds": _safe(wide.replace("</table>", "</table></div>")),
        "law": [{**line, **{name: _number(line[name]) for name in "LXR"}} for line in card["law"]],
        "page": lesson if card["lesson"] in lessons else None,
    }


def _table(rows: Collection[Mapping[str, Any]]) -> str:
    head = "| build | streams wanted | X (1/s) | R (ms) | failed | X·R |"
    return f"{head}\n|-|-|-|-|-|-|\n" + "\n".join(
        f"| {place} {row['build']} | {row['streams']} | {row['X']:,} | {row['R']} "
        f"| {row['failed']} | {row['in_flight']} |"
        for place, row in enumerate(rows, start=1)
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{4 if 10 < value < 20 else 3}g}"


def _raw(file: Path) -> str:
    return _safe(file.read_text("utf-8"))


def _safe(text: str) -> str:
    """Mark our own text as one that needs no escaping: nothing in it ends a script or a style."""
    return Markup(text.replace("</script", "<\\/script"))
