"""`run`: the one way to measure. A client of yours, a server, and how many calls in flight."""

import contextvars
import functools
import inspect
import itertools
import math
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy as copied
from dataclasses import replace
from typing import Any, Final

import grpc

from kvstore.client import workload
from kvstore.client.channel import connected, target_of
from kvstore.client.fleet import Fleet, Local
from kvstore.client.plan import RunOptions
from kvstore.client.strategies import STRATEGIES, Supports
from kvstore.client.workload import Workload
from kvstore.course import live, mode, my_code
from kvstore.course.stubs import WrappedStub, noting
from kvstore.measure import Run
from kvstore.protocol import CREATE
from kvstore.server import ServerDidNotStart, serving, serving_replicas
from kvstore.server.hosted import has_coroutines, pack
from kvstore.subprocesses import private_folder
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

YOUR: Final = "your "
"""How the name of a run begins that the learner's client made."""
SENDS: Final = ("reads", "writes", "mix")
"""Kinds of traffic: retrieves of a few keys, updates of them, or all four kinds alike."""
KEYS: Final = 8
"""So many keys are created before a run of reads or writes."""
MOST_SEED: Final = 9_999
VALUE: Final = b"sixteen bytes..."
"""What each key has that is in messages of the learner's own."""
_PACE: Final = Workload(mix={"retrieve": 1, "create": 1}, preload=0, value_bytes_mean=1)
"""Messages of the learner's own take the place of its operations."""
FULL: Final = grpc.StatusCode.RESOURCE_EXHAUSTED
CREATE_S: Final = 30.0
"""The keys of such messages are created within this time."""


class YourCodeFailed(RuntimeError):
    """The learner's code raised an error in a run."""


def run(
    client: Callable[..., Any],
    server: object,
    *,
    sends: str | Mapping[str, float] | Workload | Sequence[Any] = "reads",
    keys: int = KEYS,
    in_flight: int = 1,
    seconds: float | None = 10.0,
    rate: float | None = None,
    arrivals: str | Sequence[float] = "random",
    settles: str | Sequence[str] = (),
    back_end: Mapping[str, Any] | None = None,
    seed: int | None = None,
    processes: int = 1,
    show: bool | str | None = None,
    **options: Any,
) -> Run:
    """Run a client against a server, show the run while it lasts, and return what was measured.

    `client` is a function of (stub, requests) or (stub, requests, in_flight), as in
    `my_code/clients.py`. `server` is a servicer class, such as the one in `my_code/store.py`, which
    is served from a process of its own; or settings of the course's server, such as
    `{"locking": "per_key"}`; or the address of a server that runs. A list of settings starts so
    many servers, and a hash of the key decides which of them gets a call. With `choose`, each has
    all keys, and this function decides: from the numbers of calls that are open at each server, it
    returns the number of a server. A client of (stubs, requests) gets a stub for each server, and
    each server has all keys.

    `sends` is "reads", "writes" or "mix": a quarter each of creates, retrieves, updates and
    deletes; or the weight of each kind, such as `{"retrieve": 9, "update": 1}`, drawn from so many
    `keys`. It may also be a list of protobuf messages of your own, such as
    `list(batches(keys, 100))`: they are sent again and again, each `PipelineRequest` with an id of
    its own. Their keys get a value before the run.

    With a `rate`, in calls per second, the run is an open loop: the requests are due at random
    times, or at "even" ones, whether or not earlier calls have ended. `arrivals` may also be the
    list of due times, in seconds from the start; then it ends the run. A latency counts from the
    due time. `requests` yields each request when it is due. A client of (stub, requests, due_times)
    gets the list of due times and waits by itself.

    With `back_end`, settings of the course's server, the server is a front: a servicer class gets
    the back end's stub, `Front(stub)`, and the course's server forwards its calls. A front needs a
    list of messages; their keys are created at the back end.

    Nothing more is sent after `seconds` (a part of it with COURSE_MODE=fast, three times as long
    with full); give `seconds=None` and `calls=1_000` for a number of calls. `settles` names the
    predictions that this run answers: they can be changed until it begins. Requests, random due
    times and random disk times are drawn from a `seed`, a new one for each run, which the run
    keeps. A run that settles a prediction is drawn, any other leaves one line, unless `show` says
    otherwise: True, False, or "nothing". With `processes=2`, two client processes share the calls
    in flight; starting them takes some seconds. Further options are those of
    `kvstore.client.load.run`, such as `deadline_s=5`.

    Raises ValueError for an option that makes no sense, YourCodeFailed where the client raises an
    error or the servicer does not start.
    """
    drawn = random.SystemRandom().randint(1, MOST_SEED) if seed is None else seed
    messages = _copies(sends) if isinstance(sends, list | tuple) else ()
    if isinstance(sends, Workload):
        traffic = sends
    else:
        traffic = _PACE if messages else _traffic(sends, drawn, keys)
    if back_end is not None and not messages:
        raise ValueError(f"sends must be a list of messages for a front, got {sends!r:.60}")
    client = my_code.current(client)
    lasts: dict[str, Any] = {} if seconds is None else {"duration_s": mode.scaled(seconds)}
    if seconds is not None and "joins" in options:
        shorter = lasts["duration_s"] / seconds
        options["joins"] = [shorter * at_s for at_s in options["joins"]]
    if isinstance(server, Mapping) and "disk_times" in server:
        server = {"disk_seed": drawn, **server}
    due_times = None
    if not isinstance(arrivals, str):
        lasts = {}
    if rate is not None or not isinstance(arrivals, str):
        due_times, opened = _open_loop(rate, arrivals, drawn, **lasts, **options)
        lasts |= opened
    with (
        _behind(back_end) as (back, front),
        _served(server, **front) as target,
        _processes(processes) as fleet,
    ):
        if messages:
            _create_keys(target if back is None else back, messages)
        if fleet is not None:
            options["fleet"] = fleet
        hedges = takes_stubs(client)
        if hedges:
            options["choose"] = chosen_by_stub
        measured = live.run(
            strategy_of(client, messages, due_times, len(target_of(target).shards)),
            target,
            traffic,
            closes=settles,
            in_flight=in_flight,
            show=bool(settles) if show is None else show,
            against=server.__name__ if isinstance(server, type) else "",
            due_times=None if due_times is None or fleet is not None else iter(due_times),
            **{**lasts, **options},
        )
    if not hedges:
        return measured
    return replace(measured, settings={**measured.settings, "hedged": True})


def _open_loop(
    rate: float | None,
    arrivals: str | Sequence[float],
    seed: int,
    *,
    duration_s: float = math.inf,
    calls: int | None = None,
    **_: Any,
) -> tuple[list[float], dict[str, Any]]:
    """Return the due times of a run and the options that say how they were made.

    A list of due times is sent whole in every mode, as a number of calls is.
    """
    if isinstance(arrivals, str):
        settings: dict[str, Any] = {"rate_per_s": rate, "arrivals": arrivals, "seed": seed}
        whole = RunOptions(**settings).due_times()
        assert whole is not None  # there is a rate
        if math.inf == duration_s and calls is None:
            raise ValueError("say how long: seconds=10, or seconds=None and calls=1000")
    else:
        whole, settings = iter(arrivals), {"calls": len(arrivals)}
        duration_s = math.inf
        in_order = list(arrivals) == sorted(arrivals) and min(arrivals, default=-1) >= 0
        if rate is not None or not in_order:
            raise ValueError(
                "arrivals is 'random' or 'even' with a rate, or one or more due times in order"
                f" without one, got {arrivals!r:.60} and the rate {rate}"
            )
    until = itertools.takewhile(lambda due_s: due_s < duration_s, whole)
    return list(itertools.islice(until, calls)), settings


def _traffic(sends: object, seed: int, keys: int) -> Workload:
    small: dict[str, Any] = {"keys": keys, "value_bytes_mean": 64, "sizes": "fixed"}
    if isinstance(sends, Mapping):
        del small["keys"]
        return Workload(mix=dict(sends), seed=seed, preload=keys, **small)
    if sends == "reads":
        return workload.reads(seed=seed, **small)
    if sends == "writes":
        return workload.writes(seed=seed, **small)
    if sends == "mix":
        return workload.crud(seed=seed)
    raise ValueError(f"sends is {', '.join(map(repr, SENDS))} or a list of messages, got {sends!r}")


def _copies(sends: Sequence[Any]) -> Sequence[Any]:
    """Return the learner's messages as they are now: a run changes the ids of its own copies."""
    if not sends:
        raise ValueError("sends is a list of one or more messages, got none")
    if strange := [each for each in sends if not (hasattr(each, "key") or hasattr(each, "keys"))]:
        raise ValueError(f"sends has requests of the store, got {strange[0]!r:.60} among them")
    copies = [type(each)() for each in sends]
    for copy, each in zip(copies, sends, strict=True):
        copy.CopyFrom(each)
    return copies


def _create_keys(server: object, messages: Sequence[Any]) -> None:
    """Create each key that these messages read, change or delete; one that exists stays.

    Each of several servers gets all of them. A full server is asked again for `CREATE_S`.
    """
    keys: dict[bytes, None] = {}
    for each in messages:
        if isinstance(each, pb.PipelineRequest):
            pairs = zip(each.kinds, each.keys, strict=False)
            keys.update((key, None) for kind, key in pairs if kind != CREATE)
        elif not isinstance(each, pb.CreateRequest):
            keys[each.key] = None
    for target in target_of(server).shards:
        with connected(target) as (channel, _):
            create = KeyValueServiceStub(channel).Create.future
            missing, until_s = list(keys), time.monotonic() + CREATE_S
            while missing and time.monotonic() < until_s:
                calls = {
                    key: create(pb.CreateRequest(key=key, value=VALUE), timeout=CREATE_S)
                    for key in missing
                }
                missing = [key for key, call in calls.items() if call.code() is FULL]


@contextmanager
def _processes(count: int) -> Iterator[Fleet | None]:
    """Start so many client processes, which can import the learner's folder; None for one."""
    if count == 1:
        yield None
        return
    my_code.by_value()
    path = list(sys.path)
    sys.path.append(str(my_code.folder().parent))  # a process that is spawned gets this path
    try:
        with Local(count) as fleet:
            yield fleet
    finally:
        sys.path[:] = path


@contextmanager
def _behind(settings: Mapping[str, Any] | None) -> Iterator[tuple[object, dict[str, Any]]]:
    """Start a back end; yield it, and the settings of its front. Yield nothing without settings."""
    if settings is None:
        yield None, {}
    else:
        with serving(**settings) as back:
            yield back, {"back_end": back.address}


@contextmanager
def _served(server: object, **front: Any) -> Iterator[object]:
    """Yield what a run takes as its server; one that is started here ends with the block."""
    if isinstance(server, Mapping):
        with serving(**{"station_times": True, **server, **front}) as started:
            yield started
    elif isinstance(server, list):
        with serving_replicas([{**each, **front} for each in server]) as several:
            yield several
    elif isinstance(server, type):
        with hosting(server, **front) as started:
            yield started
    else:
        yield server


@contextmanager
def hosting(servicer: type, **settings: Any) -> Iterator[Any]:
    """Serve a servicer class from a process of its own while the block lasts; yield the server.

    `settings` are those of the course's server that have an effect, such as `threads=8`. Raises
    YourCodeFailed if it does not start, TypeError for what is no servicer class.
    """
    servicer = my_code.current(servicer)
    my_code.by_value()
    with private_folder("kvstore-own-") as folder:
        pack(servicer, path := folder / "servicer.pickle", [str(my_code.folder().parent)])
        asynchronous = has_coroutines(servicer)
        how = {"station_times": True, "use_asyncio": asynchronous, **settings}
        try:
            with serving(servicer=str(path), **how) as started:
                yield started
                _show_errors(servicer, started.child.error_text())
        except ServerDidNotStart as error:
            reason = str(error).strip().rpartition("\n")[2]
            raise YourCodeFailed(f"your `{servicer.__name__}` did not start: {reason}") from None


def _show_errors(servicer: type, text: str) -> None:
    """Print the last error that a method of the servicer raised, and where."""
    lines = [line for line in text.splitlines() if line.strip()]
    ends = [n for n, line in enumerate(lines) if line[:1].strip() and ":" in line and n]
    raised = [n for n in ends if lines[n - 1].startswith((" ", "\t"))]
    if raised:
        last = raised[-1]
        place = next((line for line in reversed(lines[:last]) if line.lstrip()[:4] == "File"), "")
        print(
            f"A method of your {servicer.__name__} raised {lines[last].strip()}"
            f" ({place.strip()}): its calls ended as UNKNOWN.",
            file=sys.stderr,
        )


def strategy_of(
    client: Callable[..., Any],
    messages: Sequence[Any] = (),
    due_times: Sequence[float] | None = None,
    servers: int = 1,
) -> Callable[..., Any]:
    """Return a client of requests in the form of the strategies, named after whose it is.

    With `messages`, these are its requests, in place of those of the workload. A client whose third
    parameter is `due_times` gets them, and requests that do not wait. One whose first parameter is
    `stubs` gets a stub for each of the servers; see `chosen_by_stub`.
    """
    if client in STRATEGIES:
        return client
    if not callable(client):
        raise ValueError(f"client must be a function of (stub, requests), got {client!r}")
    parameters = list(inspect.signature(client).parameters)
    waits = parameters[2:3] == ["due_times"]
    limited = len(parameters) > 2 and not waits
    if waits and due_times is None:
        raise ValueError(f"{client.__name__} sends at due times: give the run a rate")

    def arguments(stub: Any, operations: Any, in_flight: int) -> tuple[Any, ...]:
        requests = _Own(operations, messages) if messages else _Requests(operations)
        if due_times is not None:
            requests.due = {}
            stub = _sent_when_due(stub, requests.due)
        if takes_stubs(client):
            stub = [_of_server(stub, number) for number in range(servers)]
        if waits:
            requests.draw = operations.draw
            return stub, requests, list(due_times or ())
        return (stub, requests, in_flight) if limited else (stub, requests)

    @functools.wraps(client)
    def call(stub: Any, operations: Any, in_flight: int) -> None:
        with explained(client):
            client(*arguments(stub, operations, in_flight))

    @functools.wraps(client)
    async def call_async(stub: Any, operations: Any, in_flight: int) -> None:
        with explained(client):
            await client(*arguments(stub, operations, in_flight))

    strategy: Any = call_async if inspect.iscoroutinefunction(client) else call
    whose = "" if my_code.is_the_courses(client) else YOUR
    strategy.__name__ = f"{whose}{getattr(client, '__name__', 'client')}"
    # each task of a client begins an iteration of its own, so tasks can join one by one
    strategy.supports = Supports(
        limit=limited, joins=limited and inspect.iscoroutinefunction(client)
    )
    return strategy  # type: ignore[no-any-return]


@contextmanager
def explained(client: Callable[..., Any]) -> Iterator[None]:
    """Raise YourCodeFailed, with the line, for an error that the learner's code raises."""
    try:
        yield
    except Exception as error:
        lines = traceback.extract_tb(error.__traceback__)
        at = [each.lineno for each in lines if each.filename == client.__code__.co_filename]
        where = f" in line {at[-1]} of its cell" if at else ""
        raise YourCodeFailed(
            f"your `{client.__name__}` failed under load: {type(error).__name__}{where}: {error}"
        ) from None


_server: contextvars.ContextVar[int] = contextvars.ContextVar("server")
"""The server of the stub whose method is called now."""


def _of_server(stub: Any, number: int) -> Any:
    """Return the stub of this server.

    A function of the module: a process of the client's own gets a strategy as a pickle, which
    holds all that the strategy names, and no context variable can be pickled.
    """
    return noting(stub, functools.partial(_server.set, number))


def takes_stubs(client: Callable[..., Any]) -> bool:
    """Return whether this client takes a stub for each of several servers."""
    return callable(client) and next(iter(inspect.signature(client).parameters), "") == "stubs"


def chosen_by_stub(_: list[int]) -> int:
    """Return the server of the stub whose method is called now; a function for `choose`."""
    return _server.get()


class _Requests:
    """The messages of a run, one at a time, for threads and for tasks; safe for many of them.

    No generator: two threads or tasks cannot be in one generator at once.
    """

    def __init__(self, operations: Any) -> None:
        self._operations = operations
        self.draw: Callable[[], Any] = functools.partial(next, operations)
        self.due: dict[int, tuple[Any, float]] | None = None
        """In an open loop: each message by its id, and when it is due; it may be sent twice."""

    def __iter__(self) -> "_Requests":
        return self

    def __next__(self) -> Any:
        return self._noted(self.draw())

    def __aiter__(self) -> "_Requests":
        other = copied(self)
        other._operations = aiter(self._operations)
        return other

    async def __anext__(self) -> Any:
        return self._noted(await anext(self._operations))

    def _noted(self, operation: Any) -> Any:
        message = self._message(operation)
        if self.due is not None:
            self.due[id(message)] = message, operation.due_s
        return message

    def _message(self, operation: Any) -> Any:
        return operation.request


class _Own(_Requests):
    """Messages of the learner's own, in rotation; the run's operations say only when it ends."""

    def __init__(self, operations: Any, messages: Sequence[Any]) -> None:
        super().__init__(operations)
        self._messages = messages
        self._numbers = itertools.count()

    def _message(self, operation: Any) -> Any:
        number = next(self._numbers)
        message = self._messages[number % len(self._messages)]
        if isinstance(message, pb.PipelineRequest):
            message.id = number
        return message


def _sent_when_due(stub: Any, due: dict[int, tuple[Any, float]]) -> WrappedStub:
    """Return the stub of an open loop, which finds out when the call of a message is due."""

    def around(method: Any, how: str, request: Any, **named: Any) -> Any:
        _, due_s = due.get(id(request), (request, math.nan))
        chosen = method.due(due_s) if due_s >= 0 else method
        return getattr(chosen, how)(request, **named)

    return WrappedStub(stub, around)
