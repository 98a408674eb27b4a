"""The cap of streams that a server states, at every form of address."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from kvstore.client.channel import Target
from kvstore.load_test.bottleneck import streams_permitted


@contextmanager
def serving_streams(address, most=None):
    options = [] if most is None else [("grpc.max_concurrent_streams", most)]
    server = grpc.server(ThreadPoolExecutor(1), options=options)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ipv4:127.0.0.1:{}", "dns:///localhost:{}"])
def test_a_server_says_how_many_streams_it_permits(form):
    with serving_streams("127.0.0.1:0", 7) as port:
        assert 7 == streams_permitted(Target(form.format(port)))


def test_a_server_at_a_unix_socket_says_it_too(tmp_path):
    address = f"unix:{tmp_path / 's'}"
    with serving_streams(address, 5):
        assert 5 == streams_permitted(Target(address))


def test_several_servers_permit_the_streams_of_all():
    with serving_streams("127.0.0.1:0", 7) as one, serving_streams("127.0.0.1:0", 5) as two:
        assert 12 == streams_permitted(Target(f"ipv4:127.0.0.1:{one},127.0.0.1:{two}"))


def test_a_server_that_says_nothing_or_is_not_there_has_no_limit():
    with serving_streams("127.0.0.1:0") as port:
        assert math.inf == streams_permitted(Target(f"127.0.0.1:{port}"))
    assert math.inf == streams_permitted(Target(f"127.0.0.1:{port}"))
