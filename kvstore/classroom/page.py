"""The page for the projector: one HTML file, its state as JSON, and what the keys do.

It listens on this machine alone, and its address has a random word. Whatever students send is
shown as text, never as HTML; the page runs no script but its own.
"""

import hmac
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tornado.httpserver
import tornado.netutil
import tornado.web

from kvstore import numbers
from kvstore.classroom import figures
from kvstore.classroom.store import Round, Store, Vote, phase_of

_PAGE: Final = Path(__file__).with_name("page.html")
NAMES_MOST: Final = 60


@dataclass(frozen=True)
class Asked:
    """A question as the room sees it. `options` are those of a quiz, and `right` is a letter."""

    id: str
    text: str = ""
    unit: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    right: str = ""
    camps: Mapping[float, str] = field(default_factory=dict)


class Wall:
    """What the page shows of a class, and what the teacher does on it."""

    def __init__(
        self,
        store: Store,
        questions: Sequence[Asked],
        address: str,
        measured_here: Callable[[str], float | None],
    ) -> None:
        self._store = store
        self._questions = {each.id: each for each in questions}
        self._address = address
        self._measured_here = measured_here

    def _asked(self) -> Asked:
        """Return the question on the wall: after a restart the same one."""
        known = self._store.kept("question")
        return self._questions.get(known) or next(iter(self._questions.values()), Asked("", ""))

    def state(self) -> dict[str, Any]:
        """Return what the page shows now. Votes are in it only after `reveal`."""
        asked, names = self._asked(), list(self._store.joined().values())
        rounds, votes = self._store.rounds(asked.id), self._store.votes(asked.id)
        measured, phase = self._store.measured(asked.id), phase_of(rounds)
        if phase == "revealed" and measured is not None:
            phase = "measured"
        current = max(1, len(rounds))
        place = list(self._questions).index(asked.id) + 1 if asked.id in self._questions else 0
        shown = [each for each in rounds if each.revealed_at is not None]
        return {
            "id": asked.id,
            "text": asked.text or asked.id,
            "unit": asked.unit,
            "place": place,
            "questions": list(self._questions),
            "phase": phase,
            "round": current,
            "joined": len(names),
            "named": [name for name in names if name][:NAMES_MOST],
            "voted": sum(vote.round == current for vote in votes),
            "late": sum(vote.round > current for vote in votes) if rounds else 0,
            "address": self._address,
            "code": str(self._store.identity.code),
            "mine": _number(self._measured_here(asked.id), asked.unit),
            "options": list(asked.options.items()),
            **(_choices if asked.options else _histogram)(
                asked, shown, votes, measured if phase == "measured" else None
            ),
        }

    def do(self, action: str, question_id: str, value: object = None) -> None:
        """Do what a key says. Raises ValueError for what cannot be done."""
        asked, known = self._asked(), list(self._questions)
        if action in ("next", "previous", "go"):
            if action != "go":
                if question_id != asked.id:
                    return  # the key was pressed twice
                step = 1 if action == "next" else -1
                place = known.index(asked.id) + step if asked.id in known else 0
                question_id = known[min(max(place, 0), len(known) - 1)] if known else ""
            if question_id not in self._questions:
                raise ValueError("this class has no such question")
            self._store.keep(question=question_id)
        elif question_id != asked.id:
            return
        elif action == "measure":
            self._measure(asked, value)
        else:
            self._store.step(asked.id, action)

    def _measure(self, asked: Asked, value: object) -> None:
        if asked.options:
            self._store.measure(asked.id, 1.0)
            return
        number = self._measured_here(asked.id) if value is None else value
        try:
            number = float(str(number).replace(",", ""))
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise ValueError("type what was measured, a number above 0")
        self._store.measure(asked.id, number)

    def laws(self) -> dict[str, Any]:
        """Return X, R and L of the voters and of the votes: the class is a system, too."""
        rows = []
        votes = self._store.votes()
        for id in dict.fromkeys(vote.question_id for vote in votes):
            for round in self._store.rounds(id):
                began = round.opened_at
                stays = [
                    (began, vote.made_at)
                    for vote in votes
                    if (vote.question_id, vote.round) == (id, round.number)
                    and vote.made_at >= began
                ]
                if stays:
                    law = figures.law(stays)
                    name = id if round.number == 1 else f"{id}, vote {round.number}"
                    rows.append([name, *_law(law)])
        ways = [(vote.made_at, vote.kept_at) for vote in votes]
        slowest = max((end - begin for begin, end in ways), default=math.nan)
        return {
            "voters": rows,
            "votes": _law(figures.law(ways)),
            "slowest": numbers.seconds(slowest),
        }


def _law(law: figures.Law) -> list[str]:
    product = law.x_per_s * law.r_s
    return [
        numbers.number(law.votes),
        numbers.rate(law.x_per_s),
        numbers.seconds(law.r_s),
        numbers.number(product),
        numbers.number(law.l),
    ]


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{numbers.number(value)} {unit}".strip()


def _label(round: int) -> str:
    return {1: "first vote", 2: "second vote"}.get(round, f"vote {round}")


def _histogram(
    asked: Asked, shown: Sequence[Round], votes: Sequence[Vote], measured: float | None
) -> dict[str, Any]:
    """Return the histogram of each round that was revealed, the camps, and what was measured."""
    of_round = {
        each.number: [v.value for v in votes if v.round == each.number and v.value is not None]
        for each in shown
    }
    every = [value for values in of_round.values() for value in values]
    axis = figures.axis_of(every, measured)
    counts = [figures.camps(values, asked.camps) for values in of_round.values()]
    return {
        "log": axis.log,
        "ticks": [{"at": axis.place(x), "text": numbers.number(x)} for x in axis.ticks()],
        "rounds": [
            {
                "label": _label(number),
                "count": len(values),
                "bins": figures.histogram(values, axis),
                "middle": _number(sorted(values)[len(values) // 2], "") if values else "",
            }
            for number, values in of_round.items()
        ],
        "camps": [
            {"at": axis.place(x), "value": numbers.number(x), "text": text, "counts": in_rounds}
            for (x, text), *in_rounds in zip(sorted(asked.camps.items()), *counts, strict=False)
            if any(in_rounds)  # a camp without a vote is no help to the room
        ],
        "measured": measured
        and {"at": axis.place(measured), "text": _number(measured, asked.unit)},
    }


def _choices(
    asked: Asked, shown: Sequence[Round], votes: Sequence[Vote], measured: float | None
) -> dict[str, Any]:
    """Return how many chose each option in each round that was revealed."""
    return {
        "rounds": [
            {
                "label": _label(each.number),
                "count": sum(vote.round == each.number for vote in votes),
                "bins": [
                    sum((v.round, v.choice) == (each.number, letter) for v in votes)
                    for letter in asked.options
                ],
            }
            for each in shown
        ],
        "right": asked.right if measured is not None else "",
    }


class _Handler(tornado.web.RequestHandler):
    """Serve what is below the random word of the address, to a browser of this machine."""

    def initialize(self, wall: Wall, token: str, port: Callable[[], int]) -> None:
        self._wall, self._token, self._port = wall, token, port

    def set_default_headers(self) -> None:
        self._nonce = secrets.token_urlsafe(16)
        nonce = f"'nonce-{self._nonce}'"
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header(
            "Content-Security-Policy",
            f"default-src 'none'; script-src {nonce}; style-src {nonce}; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        )

    def prepare(self) -> None:
        """Refuse strangers: who does not know the word, or came by another name of this host."""
        token = str(self.path_args[0]).encode()
        here = (f"127.0.0.1:{self._port()}", f"localhost:{self._port()}")
        if not hmac.compare_digest(token, self._token.encode()) or self.request.host not in here:
            raise tornado.web.HTTPError(404)

    def get(self, _token: str, what: str) -> None:
        if what == "state":
            self.write(self._wall.state())
        elif what == "laws":
            self.write(self._wall.laws())
        elif not what:
            self.set_header("Content-Type", "text/html; charset=utf-8")
            self.write(_PAGE.read_text("utf-8").replace("NONCE", self._nonce))
        else:
            raise tornado.web.HTTPError(404)

    def post(self, _token: str, what: str) -> None:
        try:
            asked = json.loads(self.request.body)
            self._wall.do(str(asked["action"]), str(asked["question"]), asked.get("value"))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self.set_status(400)
            self.write({"error": str(error)})
            return
        self.write(self._wall.state())


def listen(wall: Wall, token: str, port: int) -> tuple[int, str]:
    """Serve the page on this machine, while the event loop runs; return its port and address.

    Raises OSError when the port is taken.
    """
    bound: list[int] = []
    settings = {"wall": wall, "token": token, "port": lambda: bound[0]}
    application = tornado.web.Application(
        [(r"/([\w-]+)/(\w*)", _Handler, settings)], log_function=lambda _: None
    )
    sockets = tornado.netutil.bind_sockets(port, "127.0.0.1")
    bound.append(sockets[0].getsockname()[1])
    server = tornado.httpserver.HTTPServer(application, max_body_size=10_000)
    server.add_sockets(sockets)
    return bound[0], f"http://127.0.0.1:{bound[0]}/{token}/"
