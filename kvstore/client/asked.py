"""What a run is asked for: refused before it begins where it makes no sense."""

import difflib
import inspect
import math
from collections.abc import Mapping
from typing import Any

from kvstore.client.strategies import Strategy, futures, pipelined
from kvstore.client.workload import Workload
from kvstore.measure.recorder import MOST_OPERATIONS

OF_EVERY_RUN = (
    "in_flight", "connections", "duration_s", "calls", "due_times", "joins", "deadline_s",
    "memory_ceiling_bytes", "on_sample", "sample_interval_s", "metadata", "settle_garbage",
)  # fmt: skip
"""What every run can be told: a learner may have meant one of these by a word that is none."""


NOTHING_SENT = "with none, nothing would ever be sent"


def limits(
    strategy: Strategy,
    workload: Workload,
    in_flight: int,
    connections: int,
    duration_s: float | None,
    calls: int | None,
    deadline_s: float,
    options: Mapping[str, Any],
) -> dict[str, float]:
    """The limits for the schedule: seconds, and calls; infinite where none was set.

    `options` are the strategy's own. Raises `ValueError` with what was wanted and what came.
    """
    _check_kinds(strategy, workload)
    _check_names(strategy, options)
    for name, value in options.items():
        if name.endswith("_s") and not (_is_number(value) and 0 <= value < math.inf):
            raise ValueError(f"{name} must be 0 or more seconds, got {value!r}")
    counts = {name: value for name, value in options.items() if not name.endswith("_s")}
    for name, value in {"in_flight": in_flight, "connections": connections, **counts}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            why = "write it without quotes" if isinstance(value, str) else NOTHING_SENT
            raise ValueError(f"{name} must be a whole number of 1 or more, got {value!r}: {why}")
    _check_carriers(strategy, in_flight, connections, options)
    if duration_s is None and calls is None:
        raise ValueError("say how long: duration_s=10 for seconds, or calls=1000 for a count")
    if duration_s is not None and not (_is_number(duration_s) and duration_s > 0):
        raise ValueError(f"duration_s must be above 0 seconds, got {duration_s!r}")
    if not (_is_number(deadline_s) and deadline_s > 0):
        raise ValueError(f"deadline_s must be above 0 seconds, got {deadline_s!r}")
    if calls is not None and not (_is_number(calls) and calls > 0 and calls % 1 == 0):
        raise ValueError(f"calls must be a whole number above 0, got {calls!r}")
    return {
        "duration_s": math.inf if duration_s is None else duration_s,
        "calls": math.inf if calls is None else calls,
    }


def check_streams(streams: int, connections: int, shards: int) -> None:
    """Refuse what would leave a server, or a connection, without a stream. Raises `ValueError`."""
    if streams < connections * shards > connections:
        raise ValueError(
            f"{shards} servers with {connections} connections to each need at least"
            f" {shards * connections} streams, got {streams}: a stream speaks to one server"
        )


def _check_kinds(strategy: object, workload: object) -> None:
    if not callable(strategy):
        raise ValueError(
            "strategy must be a function of kvstore.client.strategies, by its name and without"
            f" quotes, got {strategy!r}"
        )
    if not isinstance(workload, Workload):
        called = ": it lacks its parentheses" if callable(workload) else ""
        raise ValueError(
            f"workload must be a Workload, such as `workload.reads()`, got {workload!r}{called}"
        )


def _check_names(strategy: Strategy, options: Mapping[str, Any]) -> None:
    """Refuse what neither the run nor this strategy can be told."""
    if "processes" in options:
        raise ValueError("this run is made from here: run_in_process knows several processes")
    parameters = inspect.signature(strategy).parameters.values()
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return
    own = [each.name for each in parameters][3:]  # after the client, the schedule, the limit
    for name in options:
        if name not in own:
            meant = difflib.get_close_matches(name, [*OF_EVERY_RUN, *own], n=1)
            raise ValueError(
                f"neither a run nor {getattr(strategy, '__name__', 'this strategy')} knows a"
                f" setting {name}"
                + (f": did you mean {meant[0]}?" if meant else "")
                + (f" The strategy knows {', '.join(own)}." if own and not meant else "")
            )


def _check_carriers(
    strategy: Strategy, in_flight: int, connections: int, options: Mapping[str, Any]
) -> None:
    """Refuse what would leave a stream or a connection with nothing to carry."""
    if options.get("streams", 1) > in_flight:
        raise ValueError(
            f"{options['streams']} streams need at least as many requests in flight,"
            f" got in_flight={in_flight}"
        )
    if options.get("batch", 1) > MOST_OPERATIONS:
        raise ValueError(
            f"batch must be at most {MOST_OPERATIONS:,} operations, got {options['batch']:,}:"
            " far below it more in a message gains nothing (lesson 05)"
        )
    carriers = options.get("streams", 1) if strategy is pipelined else in_flight
    if connections > carriers and strategy is not futures:
        what = "streams" if strategy is pipelined else "calls in flight"
        raise ValueError(
            f"{connections} connections need at least as many {what}, got {carriers}:"
            " the others would carry nothing"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
