"""settings.py and peers/changed.py: every setting of ours is measured, and is what is changed."""

from contextlib import ExitStack

import pytest

from benchmarks.overhead import Turn
from benchmarks.peers.changed import Change, changed_client, changed_server
from benchmarks.peers.turns import client_with
from benchmarks.settings import (
    CALLS,
    NOT_USED,
    SETTINGS,
    SPEED,
    STREAMS,
    Setting,
    messages,
    row,
    turns_of,
)
from kvstore.client import channel, client
from kvstore.client.channel import connected, target_of
from kvstore.server import ServerSettings, serving
from kvstore.server.admission import channel_options


def test_every_channel_option_that_is_always_set_is_measured(subtests):
    """An option that no benchmark measures would never be removed."""
    for side, options in [
        ("client", channel.OPTIONS),
        ("server", channel_options(ServerSettings())),
    ]:
        with subtests.test(side=side, options=options):
            measured = {
                name for each in SETTINGS if each.side == side for name in each.change.without
            }

            assert {name for name, _ in options} <= measured


def test_options_marked_as_not_used_are_not_used():
    used = {("client", name) for name, _ in channel.OPTIONS}
    used |= {("server", name) for name, _ in channel_options(ServerSettings())}
    unused = {(each.side, each.change.added[0]) for each in SETTINGS if each.change.added}

    assert unused & used == set()
    assert {NOT_USED} == {each.kept_for for each in SETTINGS if each.change.added}


def test_a_change_removes_and_adds_the_options_that_it_names():
    usual = [("a", 1), ("b", 2)]

    assert usual == Change().options(usual)
    assert [("b", 2)] == Change(without=("a",)).options(usual)
    assert [("a", 1), ("b", 2), ("c", 3)] == Change(added=("c", 3)).options(usual)


def test_a_changed_client_is_the_usual_one_again_whatever_happened():
    usual, factory = list(channel.OPTIONS), vars(client)["event_loop_factory"]
    seen: list[object] = []

    def look_and_fail() -> None:
        with changed_client(Change((usual[0][0],), None, True)):
            seen.extend([list(channel.OPTIONS), vars(client)["event_loop_factory"]()])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look_and_fail()

    assert [usual[1:], None] == seen
    assert (usual, factory) == (channel.OPTIONS, vars(client)["event_loop_factory"])


def test_a_row_says_what_it_is_with_over_without():
    rounds = {"with": [Turn(300.0, 1.0, 0.01)] * 3, "without": [Turn(200.0, 2.0, 0.1)] * 3}
    shown = row("x", "client", "calls", SPEED, rounds)

    assert (1.5, 0.5) == (shown["over without"], shown["CPU over without"])
    assert "1.0 / 10.0" == shown["collector, % of time"]


@pytest.mark.slow
def test_a_changed_server_has_the_change():
    with (
        changed_server(Change(leave_garbage=True, plain_loop=True)) as server,
        connected(target_of(server)) as (_, status),
    ):
        assert '"settle_garbage": false' in status.settings_json
        assert '"use_asyncio": true' in status.settings_json


@pytest.mark.slow
def test_with_a_setting_and_without_take_their_turns():
    unused = Change(added=("grpc.http2.bdp_probe", 0), plain_loop=True)
    with ExitStack() as servers:
        turns = turns_of(Setting("x", "client", unused, STREAMS, NOT_USED), 0.1, servers)
        done = {name: turn() for name, turn in turns.items()}

    assert ["with", "without"] == sorted(done)
    assert all(turn.per_s > 0 and turn.cpu_s > 0 for turn in done.values())


@pytest.mark.slow
def test_both_implementations_of_protobuf_are_measured():
    done = {name: turn() for name, turn in messages().items()}

    assert all(turn.per_s > 0 for turn in done.values())


@pytest.mark.slow
def test_a_client_with_a_profile_is_a_process_that_has_it():
    """Both profiles are compared in one process of ours, so each needs one of its own."""
    with serving(read_delay_s=0, use_asyncio=True) as server, client_with("poller") as poller:
        under = CALLS._replace(in_flight=4)
        # CPU time is counted in steps of 10 ms on some systems
        made = poller.turn(under.strategy, server.address, under.workload, in_flight=4, calls=400)
        with pytest.raises(RuntimeError, match="calls must be a whole number"):
            poller.turn(under.strategy, server.address, under.workload, calls=0.5)

    assert {"per_s", "client_cpu_s", "server_cpu_s"} == set(made)
    assert min(made.values()) > 0
