"""Lesson 06: channels with connections of their own."""

from collections.abc import Sized
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.puppet import counting

PATIENCE_S: Final = 5.0
"""How long the check waits for the reply to one call."""


@judges("06.own_connections")
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
