"""price.py: the processor time of a call, of the side that it costs more."""

import math

import pytest
from traces import Made, run_of

from kvstore.measure import Cpu
from kvstore.measure.price import busy, price_s

FOUR = [Made(0.0, 1.0)] * 4


@pytest.mark.parametrize(
    ("client", "server", "each_s"),
    [
        (Cpu(0.6, 0.2), Cpu(0.1, 0.3), 0.2),
        (Cpu(0.1, 0.1), Cpu(1.0, 1.0), 0.5),
        (Cpu(0.8, 0.0), Cpu(math.nan, math.nan), 0.2),
    ],
    ids=["client", "server", "server out of sight"],
)
def test_the_dearer_side_sets_the_price(client, server, each_s):
    price = price_s(run_of(FOUR, client_cpu=client, server_cpu=server))

    assert each_s == pytest.approx(price.dearer_s)


def test_the_share_of_the_time_it_was_at_work():
    run = run_of(FOUR, client_cpu=Cpu(0.3, 0.2), server_cpu=Cpu(0.1, 0.1), window_s=2.0)

    assert busy(run) == pytest.approx(0.25)


def test_where_nothing_was_seen_or_sent_there_is_no_price():
    assert math.isnan(price_s(run_of(FOUR)).dearer_s)
    assert math.isnan(busy(run_of(FOUR)))
    assert math.isnan(price_s(run_of([], client_cpu=Cpu(1.0, 1.0))).dearer_s)
