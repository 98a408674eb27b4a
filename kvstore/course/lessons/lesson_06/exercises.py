"""Lesson 06: channels with connections of their own, and a cap of streams."""

from collections.abc import Sized
from typing import Any, Final

import grpc

from kvstore.course.exercises import Exercise, Verdict, not_yet, passed
from kvstore.course.exercises.grading import Drawn
from kvstore.course.exercises.puppet import counting

# 06.own_connections -------------------------------------------------------------------------------

PATIENCE_S: Final = 5.0
"""How long the check waits for the reply to one call."""


def own_connections(address: str, count: int) -> list[grpc.Channel]:
    """Return `count` open channels to the address, each with a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    return [grpc.insecure_channel(address, options=options) for _ in range(count)]


def _judge_own_connections(answer: Any) -> Verdict:
    for count in (1, 3, 10):
        with counting() as (address, calls):
            channels = answer(address, count)
            try:
                problem = _problem(channels, count, calls)
            finally:
                for channel in channels if isinstance(channels, list | tuple) else [channels]:
                    if isinstance(channel, grpc.Channel):
                        channel.close()
        if problem:
            return not_yet(f"`own_connections(address, {count})`: {problem}")
    return passed("the server counted 1, 3 and 10 connections, one for each of your channels.")


def _problem(channels: Any, count: int, connections: Sized) -> str:
    """Return what is wrong with the channels of one trial, or ""."""
    if not isinstance(channels, list | tuple):
        return f"return a list of channels, got {type(channels).__name__}."
    if strange := [each for each in channels if not isinstance(each, grpc.Channel)]:
        return (
            f"the list must hold objects of `grpc.Channel`, as `grpc.insecure_channel` returns "
            f"them, got {type(strange[0]).__name__}."
        )
    if len(channels) != count:
        return f"the list holds {len(channels)} channels."
    if len(set(map(id, channels))) < count:
        return "the same channel stands in the list several times. Open a new one for each place."
    for channel in channels:
        try:
            channel.unary_unary("/any/Method")(b"", timeout=PATIENCE_S, wait_for_ready=True)
        except ValueError:
            return "a channel is closed already. Return open channels; the check closes them."
        except grpc.RpcError:
            return f"a channel reached no server within {PATIENCE_S:g} s. Is `address` its target?"
    if not connections:
        return "the calls reached another server. Use `address` as the target of each channel."
    if (seen := len(connections)) < count:
        shared = "all channels share one" if seen == 1 else "some channels share a connection"
        return (
            f"the server counted {seen} connection{'s' if seen > 1 else ''} for {count} channels: "
            f"{shared}. Channels with the same target and the same options share by default."
        )
    return ""


OWN_CONNECTIONS = Exercise(
    id="06.own_connections",
    title="Channels that do not share a connection",
    hints=(
        "`grpc.insecure_channel(address)` in a loop opens channels. They share one connection.",
        "A channel takes `options`: a list of pairs of a name and a value. One of the names is "
        "`grpc.use_local_subchannel_pool`. The connections are kept in this pool.",
        '`options=[("grpc.use_local_subchannel_pool", 1)]` gives a channel a pool of its own. '
        "Open `count` such channels, and return them as a list, still open.",
    ),
    reference=own_connections,
    judge=_judge_own_connections,
    may_pause=True,
    timeout_s=60.0,
)


# 06.behind_a_cap ----------------------------------------------------------------------------


def rate_per_s(
    in_flight: int, connections: int, max_streams: int, disk_s: float, cpu_s: float
) -> float:
    """Return the highest throughput in calls/s: by the calls in the server, or by its CPU time."""
    in_the_server = min(in_flight, connections * max_streams)
    return min(in_the_server / (disk_s + cpu_s), 1 / cpu_s)


def _drawn_caps() -> Any:
    from hypothesis import strategies as st

    return st.tuples(
        st.integers(1, 1_000),
        st.integers(1, 20),
        st.integers(1, 100),
        st.integers(0, 100).map(lambda ms: ms / 1e3),
        st.integers(1, 5_000).map(lambda us: us / 1e6),
    )


def _shown_cap(n: int, c: int, m: int, disk_s: float, cpu_s: float) -> str:
    return (
        f"in_flight={n}, connections={c}, max_streams={m}, disk_s={disk_s:.6g}, cpu_s={cpu_s:.6g}"
    )


BEHIND_A_CAP = Exercise(
    id="06.behind_a_cap",
    title="Behind a cap",
    hints=(
        "How many calls are in the server at once? Two numbers limit that.",
        "`min(in_flight, connections * max_streams)`. Each stays for disk and CPU time.",
        "And one process computes for one call at a time: at most `1 / cpu_s` calls per second.",
    ),
    reference=rate_per_s,
    judge=Drawn(
        rate_per_s,
        _drawn_caps(),
        mistakes=(
            (
                "You leave out the cap: calls beyond it wait in the client.",
                lambda n, c, m, s, d: min(n / (s + d), 1 / d),
            ),
            (
                "The cap holds for each connection: a second one admits as many calls again.",
                lambda n, c, m, s, d: min(min(n, m) / (s + d), 1 / d),
            ),
            (
                "You fill every stream: but the client may have fewer calls in flight.",
                lambda n, c, m, s, d: min(c * m / (s + d), 1 / d),
            ),
            (
                "You leave out the processor: it computes for one call at a time.",
                lambda n, c, m, s, d: min(n, c * m) / (s + d),
            ),
            (
                "A call keeps its stream for the CPU time as well, not for the disk alone.",
                lambda n, c, m, s, d: min(min(n, c * m) / s if s else float("inf"), 1 / d),
            ),
            (
                "You return a number of calls: divide it by the time of a call.",
                lambda n, c, m, s, d: min(n, c * m, 1 / d),
            ),
            (
                "That is one call at a time: but several are in the server at once.",
                lambda n, c, m, s, d: 1 / (s + d),
            ),
            (
                "`in_flight` counts the calls on all connections together.",
                lambda n, c, m, s, d: min(n * c, c * m) / (s + d) if n * c < 1 / d else 1 / d,
            ),
            (
                "Both bounds hold, so the smaller one decides.",
                lambda n, c, m, s, d: max(min(n, c * m) / (s + d), 1 / d),
            ),
            (
                "More connections do not bring more processors.",
                lambda n, c, m, s, d: min(min(n, c * m) / (s + d), c / d),
            ),
        ),
        shown=_shown_cap,
        right="X is at most min(min(N, c·m) / D, 1/d): the calls, the streams, or the processor.",
    ),
)
