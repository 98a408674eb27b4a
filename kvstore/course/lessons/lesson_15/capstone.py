"""The capstone: an unknown service in a process of its own, and its clients.

    service      open_service(): the process, and what a learner asks of it
    clients      a plain client; the requests of a run

The settings of the service are in the other process (`judge`), which computes the score.
"""

import getpass
import inspect
import itertools
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import pandas as pd
from IPython.core.getipython import get_ipython
from tqdm.auto import tqdm

from kvstore import numbers
from kvstore.client.messages import Operation
from kvstore.course import mode, my_code, progress, rendering
from kvstore.course.exercises import NotAttempted
from kvstore.course.lessons.lesson_15.judge.__main__ import METHOD
from kvstore.course.lessons.lesson_15.judge.sitting import PASS_MARK, Line, Refused, is_passed
from kvstore.protocol import CREATE, UPDATE
from kvstore.subprocesses import child
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

__all__ = ["Score", "Service", "open_service", "plain", "records"]


# The client of a run: a function of addresses, requests and the most calls in flight.


Client = Callable[[Sequence[str], Iterator[Any], int], object]
"""Sends every request with gRPC, at most so many at a time; returns when all calls have ended."""


def plain(
    addresses: Sequence[str],
    requests: Iterator[Any],
    in_flight: int,
    connections: int = 1,
) -> None:
    """Send each request once, to the addresses in turn, over `connections` to each."""
    with ExitStack() as stack:
        stubs = []
        for address in [*addresses] * connections:
            channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
            stubs.append(KeyValueServiceStub(stack.enter_context(channel)))
        free = threading.Semaphore(in_flight)
        for request, stub in zip(requests, itertools.cycle(stubs), strict=False):
            free.acquire()
            call = my_code.course_version("clients.method_of")(stub, request).future(request)
            call.add_done_callback(lambda _: free.release())
        for _ in range(in_flight):  # all places are free again: all calls have ended
            free.acquire()


def requests_of(begun: dict[str, Any], doing: str) -> Iterator[Any]:
    """Yield the messages of a run, each when it is due; in a closed loop until time is over."""
    value = bytes(begun["value_bytes"])
    due_s, duration_s = begun["due_s"], begun["duration_s"]
    began_s = time.perf_counter()
    with tqdm(
        total=round(duration_s), desc=doing, unit="s", leave=False, disable=get_ipython() is None
    ) as bar:
        for serial, (kind, item) in enumerate(zip(begun["kinds"], begun["items"], strict=True)):
            passed_s = time.perf_counter() - began_s
            if due_s is None and passed_s >= duration_s:
                return
            if due_s is not None and due_s[serial] > passed_s:
                time.sleep(due_s[serial] - passed_s)
            if int(passed_s) > bar.n:
                bar.update(int(passed_s) - bar.n)
            key = b"item-%d/%d" % (item, serial)
            yield Operation(kind, key, value if kind in (CREATE, UPDATE) else b"").request


# `open_service`: start the process of an unknown service; measure, name, predict, buy and run.


PRACTICE: Final = "COURSE_CAPSTONE_PRACTICE"
"""The environment variable with a practice number, for tests and for teachers."""
START_S = 60.0
"""Seconds in which the process must start."""
OPEN_LOOP_CALLS = 10_000
"""What a client may have in flight in an open loop: there, arrivals do not wait for answers."""


def records() -> Path:
    """Return the folder in which the records of this learner are kept."""
    return progress.path().parent / "capstone"


class Measurement(rendering.Shown):
    """What one run has shown; `None` in place of numbers where its client was broken off."""

    def __init__(self, what: str, load: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        self.what = what
        self.load = dict(load)
        self.throughput_per_s: float = result["steady_per_s"]
        """Calls answered per second, while the client kept the service busy."""
        self.mean_s: float = result["mean_s"]
        """Mean residence time in seconds."""
        self.p99_s: float = result["p99_s"]
        self.processor_busy: float = result["processor_busy"]
        """Share of the time for which the processor of the service worked."""
        self.answered: int = result["answered"]
        self.lost: int = result["lost"]

    def __repr__(self) -> str:
        return rendering.plain_table(*self._table())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head = ["", "X (calls/s)", "R (ms)", "p99 (ms)", "processor busy", "answered", "lost"]
        row = [
            numbers.number(self.throughput_per_s),
            numbers.number(1e3 * self.mean_s),
            numbers.number(1e3 * self.p99_s),
            f"{numbers.percent(self.processor_busy)}",
            f"{self.answered:,}",
            f"{self.lost:,}",
        ]
        return head, [[_described(self.what, self.load), *row]]

    def _forms(self) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": rendering.table(*self._table())}


def _described(what: str, load: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name} {value}" for name, value in load.items() if name != "rate_per_s")
    return f"{what}: {options or 'in_flight 1'}" if what == "measure" else what


@dataclass(frozen=True)
class Score(rendering.Shown):
    """The score of a finished sitting."""

    record: dict[str, Any]
    """The record: the whole history, and the case."""

    @property
    def lines(self) -> list[Line]:
        """The lines with their points and reasons."""
        return [Line(**line) for line in self.record["final"]["lines"]]

    @property
    def points(self) -> float:
        """The points, of 100."""
        return float(self.record["final"]["points"])

    @property
    def met(self) -> bool:
        """Whether the target was met, and nothing lost."""
        return bool(self.record["final"]["met"])

    @property
    def passed(self) -> bool:
        """Whether the design passes: it meets the target, and has `PASS_MARK` points or more."""
        return is_passed(self.lines)

    def __repr__(self) -> str:
        return f"{self._headline()}\n{rendering.plain_table(*self._table())}"

    def _headline(self) -> str:
        head = f"{self.points:g} of 100 points, target {'met' if self.met else 'missed'}"
        if self.passed:
            return f"{head}: passed"
        return f"{head}: not passed" + (f", that takes {PASS_MARK} points" if self.met else "")

    def _table(self) -> tuple[list[str], list[list[str]]]:
        rows = [[each.name, f"{each.points:.1f}", str(each.of), each.why] for each in self.lines]
        return ["line", "points", "of", "why"], rows

    def _forms(self) -> dict[str, Any]:
        colour = rendering.GOOD if self.passed else rendering.QUIET
        head = rendering.headline("✔" if self.passed else "✘", self._headline(), colour)
        return {"text/plain": repr(self), "text/html": head + rendering.table(*self._table())}


class Service(rendering.Shown):
    """An unknown service. Its settings are in another process."""

    def __init__(self, ask: Any, stack: ExitStack) -> None:
        self._call, self._stack = ask, stack
        self.brief: dict[str, Any] = self._ask("brief")
        """What is known of the service: the load to come, the target, and the changes on offer."""

    def measure(self, client: Client | None = None, **load: Any) -> Measurement:
        """Measure the service as it is, for half a point, and show the result.

        `in_flight` (1 to 26), `only` ("all", "reads", "updates", "creates"), `items` ("all", "one",
        "spread"), `value_bytes` (4,096 in the traffic), `servers` (1 or 2 of the two),
        `connections` to each, `proxy_attempts` (5). `client` sends in place of the plain client.
        """
        connections, servers = load.get("connections", 1), load.get("servers", 2)

        def chosen(addresses: Sequence[str], requests: Iterator[Any], in_flight: int) -> None:
            plain(addresses[:servers], requests, in_flight, connections)

        measurement = self._run("measure", client or chosen, load, load.get("in_flight", 1))
        assert isinstance(measurement, Measurement)
        measurement._show()
        return measurement

    def name(self, first: str, then: str | None = None) -> None:
        """Name the bottleneck, and the station that binds next if it is close to it."""
        self._ask("name", first=first, then=then)
        _say(f"You named: {first}, then {then or 'none'}. You can change it until your run.")

    def predict(self, *, start: float | None = None, result: float | None = None) -> None:
        """Predict, in calls/s, the start under the load to come; and the result of your run.

        The result is a throughput in calls/s or a p99 in seconds, as the target of the brief.
        """
        for of, value in (("start", start), ("result", result)):
            if value is not None:
                self._ask("predict", of=of, value=value)
                _say(f"Predicted for the {of} of this service: {numbers.number(value)}.")

    def run_start(self) -> Measurement | None:
        """Run the unchanged service under the load of the target, once, for half a point.

        Do nothing before `predict(start=...)`.
        """
        if not self._predicted("start"):
            _say("Predict first: `predict(start=60)` of this service, in calls/s. Nothing was run.")
            return None
        measurement = self._run("start", plain, {}, self._in_flight())
        assert isinstance(measurement, Measurement)
        measurement._show()
        return measurement

    def buy(self, *changes: str) -> None:
        """Choose the changes for your run, in place of those chosen before."""
        if not all(isinstance(each, str) for each in changes):
            raise Refused(
                'name the changes one by one, such as "compress", "more cores", not in a list'
            )
        self._ask("buy", changes=list(changes))
        _say(f"Your run will have: {', '.join(changes) or 'no change'}.")

    def run(self, client: Client | NotAttempted) -> Score | None:
        """Run your client on the service with the changes that you bought. The score is final.

        Do nothing if `client` is not attempted, or before `predict(result=...)`. Raises `TypeError`
        if it cannot be called with addresses, requests and the most calls in flight.
        """
        if isinstance(client, NotAttempted) or _is_stub(client):
            _say("Not attempted: write your client first. Nothing was run.")
            return None
        _three_arguments(client)
        if not self._predicted("result"):
            _say("Predict first, such as `predict(result=150)`: the run is final. Nothing was run.")
            return None
        self._run("result", client, {}, self._in_flight())
        score = Score(self.record())
        line = f"{score.points:g} points"
        progress.record_answer("15.capstone", "passed" if score.passed else "not yet", line)
        score._show()
        return score

    def record(self) -> dict[str, Any]:
        """Return the record: the history so far; and after your run the case and the score."""
        return dict(self._ask("record")["record"])

    def measurements(self) -> pd.DataFrame:
        """Return one row for each run so far."""
        rows = [
            {"run": _described(each["event"], each["load"]), **_row(each["result"])}
            for each in self.record()["history"]
            if each.get("result")
        ]
        columns = ["run", *_row(dict.fromkeys(_SHOWN, 0.0))]
        return pd.DataFrame(rows, columns=columns).set_index("run")

    def close(self) -> None:
        """End the process; the record stays."""
        self._stack.close()

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "\n".join(_brief(self.brief))

    def _forms(self) -> dict[str, Any]:
        lines = [rendering.inline(line) for line in _brief(self.brief)]
        head = ["change", "what it does"]
        table = rendering.table(head, list(self.brief["changes"].items()))
        return {"text/plain": repr(self), "text/html": f"<p>{'<br>'.join(lines)}</p>{table}"}

    def _predicted(self, of: str) -> bool:
        return any(each.get("of") == of for each in self.record()["history"])

    def _in_flight(self) -> int:
        return OPEN_LOOP_CALLS if self.brief["open_loop"] else int(self.brief["most_in_flight"])

    def _run(self, what: str, client: Client, load: dict[str, Any], in_flight: int) -> Any:
        try:
            begun = self._ask("begin", what=what, options=load)
        except KeyboardInterrupt:  # the other process may have begun the run
            with suppress(Refused):
                self._ask("end", broken_off=True)
            raise
        broken_off = True
        try:
            client(begun["addresses"], requests_of(begun, what), in_flight)
            broken_off = False
        finally:  # also after Ctrl-C
            ended = self._ask("end", broken_off=broken_off)
        return Measurement(what, load, ended["result"])

    def _ask(self, ask: str, **request: Any) -> dict[str, Any]:
        raw = json.dumps({"ask": ask, **request}, default=_plain_value).encode()
        try:
            reply = dict(self._call(raw))
        except ValueError:  # gRPC's, of a channel
            raise RuntimeError("this service is closed: open one with `open_service()`") from None
        except grpc.RpcError as error:
            raise RuntimeError(
                "the process of the service has ended, and its case with it: open another one with"
                " `open_service()`"
            ) from error
        if "unsaved" in reply:
            warnings.warn(f"{reply['unsaved']}. The service goes on; make room.", stacklevel=3)
        if "refused" in reply:
            raise Refused(reply["refused"])
        return reply


def open_service(
    learner: str | None = None,
    *,
    practice: int | None = None,
    open_loop: bool | None = None,
    folder: Path | None = None,
) -> Service:
    """Start the process of an unknown service; it ends with this kernel, or with `close()`.

    `learner` is the name in the record, by default that of the user. With a `practice` number the
    case follows from it, and the record says so. In an open loop calls arrive and the target is a
    p99, in a closed loop callers wait and the target is a throughput; a class sets `open_loop`, so
    that all have the same task, and without it the draw decides. The record is written to `folder`,
    by default `records()`. Raises `RuntimeError` when the process does not start.
    """
    if practice is None and os.environ.get(PRACTICE):
        practice = int(os.environ[PRACTICE])
    case = [] if practice is None else [f"--practice={practice}"]
    if open_loop is not None:
        case.append(f"--loop={'open' if open_loop else 'closed'}")
    learner = re.sub(r"[^\w.-]+", "_", learner or getpass.getuser())
    arguments = [f"--folder={folder or records()}", f"--learner={learner}", *case]
    arguments += ["--fast"] if mode.fast() else []
    with ExitStack() as stack:
        process = stack.enter_context(child("kvstore.course.lessons.lesson_15.judge", arguments))
        address = process.first_line(START_S)
        if not address:
            raise RuntimeError(f"the service did not start: {process.error_text() or 'no reason'}")
        channel = stack.enter_context(grpc.insecure_channel(address))
        ask = channel.unary_unary(METHOD, response_deserializer=json.loads)
        service = Service(ask, stack)  # an interrupt while it asks for its brief ends the process
        service._stack = stack.pop_all()
    return service


_SHOWN: Final = ("steady_per_s", "mean_s", "p99_s", "processor_busy", "lost")


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "X (calls/s)": round(result["steady_per_s"], 1),
        "R (ms)": round(1e3 * result["mean_s"]),
        "p99 (ms)": round(1e3 * result["p99_s"]),
        "processor busy (%)": round(100 * result["processor_busy"]),
        "lost": result["lost"],
    }


def _brief(brief: Mapping[str, Any]) -> list[str]:
    target = (
        f"When calls arrive at {brief['growth']:g} times the throughput of today, the p99 must "
        f"be at most {brief['p99_s']:g} s from the due time."
        if brief["open_loop"]
        else f"The service must answer {brief['growth']:g} times as many calls per second, with "
        "the same limit."
    )
    return [
        f"Service {brief['id']}",
        f"Clients keep up to {brief['most_in_flight']} calls in flight. The throughput of today "
        "is the highest of the unchanged service.",
        target,
        "In a third of the services, one of the two servers stalls or goes away during the run. "
        "Nothing may be lost.",
        f"You may buy up to {brief['most_changes']} changes: {', '.join(brief['changes'])}.",
    ]


def _plain_value(value: Any) -> Any:
    """Return a number of NumPy as Python's. Raises `TypeError` for what JSON has no form for."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"the service takes numbers and texts, got {value!r}")


def _three_arguments(client: object) -> None:
    if not callable(client):
        raise TypeError(f"a client is a function, got {client!r}")
    try:
        inspect.signature(client).bind([], iter(()), 1)
    except TypeError as error:
        raise TypeError(
            f"a client is called with addresses, requests and the most calls in flight: {error}"
        ) from None


def _is_stub(client: Client) -> bool:
    """Whether the client, given no request, returns that it is not attempted."""
    try:
        return isinstance(client(["127.0.0.1:1", "127.0.0.1:2"], iter(()), 1), NotAttempted)
    except Exception:
        return False  # the run will show the learner what is wrong


def _say(text: str) -> None:
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})
