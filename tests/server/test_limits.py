"""limits.py: the options whose defaults bite; what they do is in the contract test."""

from kvstore.server import ServerSettings
from kvstore.server.limits import channel_options


def test_no_two_servers_share_a_port_and_no_burst_is_cut():
    options = dict(channel_options(ServerSettings()))

    assert 0 == options["grpc.so_reuseport"]
    assert options["grpc.server.max_pending_requests"] > 1_000_000
    assert options["grpc.server.max_pending_requests_hard_limit"] > 1_000_000


def test_the_caps_of_grpc_are_left_to_who_asks_for_them():
    options = dict(channel_options(ServerSettings(default_limits=True)))

    assert [] == [name for name in options if "pending" in name]
    assert 0 == options["grpc.so_reuseport"]


def test_streams_are_capped_and_made_to_wait_only_where_that_is_asked_for():
    plain = dict(channel_options(ServerSettings()))
    capped = dict(channel_options(ServerSettings(max_streams=7, refuse_streams=False)))

    assert not {"grpc.max_concurrent_streams", "grpc.http.overload_protection"} & set(plain)
    assert 7 == capped["grpc.max_concurrent_streams"]
    assert 0 == capped["grpc.http.overload_protection"]


def test_no_option_is_given_twice():
    names = [name for name, _ in channel_options(ServerSettings())]

    assert len(set(names)) == len(names)
