"""Lesson 06: channels with connections of their own."""

from collections.abc import Sized
from typing import Any, Final

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.puppet import counting
from kvstore.course.lessons import words

say = words("06")

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
    return passed(say("passed_own_connections"))


def _problem(channels: Any, count: int, connections: Sized) -> str:
    """Return what is wrong with the channels of one trial, or ""."""
    if not isinstance(channels, list | tuple):
        return say("no_list", kind=type(channels).__name__)
    if strange := [each for each in channels if not isinstance(each, grpc.Channel)]:
        return say("no_channels", kind=type(strange[0]).__name__)
    if len(channels) != count:
        return f"the list holds {len(channels)} channels."
    if len(set(map(id, channels))) < count:
        return say("one_channel_twice")
    for channel in channels:
        try:
            channel.unary_unary("/any/Method")(b"", timeout=PATIENCE_S, wait_for_ready=True)
        except ValueError:
            return say("closed")
        except grpc.RpcError:
            return say("no_server", patience_s=PATIENCE_S)
    if not connections:
        return say("another_server")
    if (connection_count := len(connections)) < count:
        shared = (
            "all channels share one"
            if connection_count == 1
            else "some channels share a connection"
        )
        return say(
            "shared",
            connections=connection_count,
            plural="s" if connection_count > 1 else "",
            count=count,
            shared=shared,
        )
    return ""
