"""settings.py and peers/changed.py: every setting of ours is measured, and is what is changed."""

from contextlib import ExitStack

import pytest

from benchmarks.overhead import Turn
from benchmarks.peers.changed import Change, changed_client, changed_server
from benchmarks.settings import (
    SETTINGS,
    SPEED,
    STREAMS,
    TRIED,
    Setting,
    messages,
    row,
    turns_of,
)
from kvstore.client import channel, client
from kvstore.client.channel import connected, target_of
from kvstore.server import ServerSettings
from kvstore.server.limits import channel_options


@pytest.mark.parametrize(
    ("side", "options"),
    [("client", channel.OPTIONS), ("server", channel_options(ServerSettings()))],
)
def test_every_channel_option_that_is_always_set_is_measured(side, options):
    """One that nobody measures stays for ever."""
    measured = {name for each in SETTINGS if each.side == side for name in each.change.without}

    assert {name for name, _ in options} <= measured


def test_what_is_tried_is_not_in_use():
    used = {name for name, _ in [*channel.OPTIONS, *channel_options(ServerSettings())]}
    tried = {each.change.tried[0] for each in SETTINGS if each.change.tried}

    assert tried & used == set()
    assert {TRIED} == {each.kept_for for each in SETTINGS if each.change.tried}


def test_a_change_leaves_out_what_it_names_and_adds_what_it_tries():
    usual = [("a", 1), ("b", 2)]

    assert usual == Change().options(usual)
    assert [("b", 2)] == Change(without=("a",)).options(usual)
    assert [("a", 1), ("b", 2), ("c", 3)] == Change(tried=("c", 3)).options(usual)


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
    told = row("x", "client", "calls", SPEED, rounds)

    assert (1.5, 0.5) == (told["over without"], told["CPU over without"])
    assert "1.0 / 10.0" == told["collector, % of time"]


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
    tried = Change(tried=("grpc.http2.bdp_probe", 0), plain_loop=True)
    with ExitStack() as servers:
        turns = turns_of(Setting("x", "client", tried, STREAMS, TRIED), 0.1, servers)
        done = {name: turn() for name, turn in turns.items()}

    assert ["with", "without"] == sorted(done)
    assert all(turn.per_s > 0 and turn.cpu_s > 0 for turn in done.values())


@pytest.mark.slow
def test_both_implementations_of_protobuf_are_measured():
    done = {name: turn() for name, turn in messages().items()}

    assert all(turn.per_s > 0 for turn in done.values())
