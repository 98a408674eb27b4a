"""scaling.py: several processes and servers, by hand; keys used unevenly, by hand and simulated."""

import pytest

from kvstore.model import scaling

UNARY = {"client_s": 100e-6, "server_s": 200e-6}
"""No part of it is beside the interpreter."""
SERIAL = {"client_serial_s": 100e-6, "server_serial_s": 200e-6}


@pytest.mark.parametrize(
    ("generators", "servers", "cores", "per_s", "binds", "says"),
    [
        (2, 1, 2, 5_000, "servers", "1 server, 200 µs an operation: s / D'_server"),
        (2, 3, 16, 15_000, "servers", "3 servers, 200 µs"),
        (1, 2, 2, 2 / 300e-6, "cores", "2 cores for 100 µs + 200 µs an operation: cores / "),
        (1, 2, 4, 10_000, "generators", "1 generator, 100 µs an operation: p / D'_client"),
    ],
)
def test_the_narrowest_of_three_binds(generators, servers, cores, per_s, binds, says):
    predicted = scaling.throughput(
        generators=generators, servers=servers, cores=cores, **UNARY, **SERIAL
    )

    assert predicted.value == pytest.approx(per_s)
    assert ("operations/s", binds) == (predicted.unit, predicted.binds)
    assert predicted.reason.startswith(says)


@pytest.mark.parametrize(
    ("servers", "hottest", "share"),
    [(1, 0.05, 1.0), (20, 0.05, 1 / 10.26), (100, 0.05, 1 / 16.81), (4, 0.0, 0.25), (4, 1.0, 1.0)],
)
def test_the_busiest_server_has_the_hot_key_and_its_part_of_all_others(servers, hottest, share):
    assert share == pytest.approx(scaling.busiest_share(servers, hottest), rel=1e-3)
