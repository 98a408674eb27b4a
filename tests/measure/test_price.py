"""price.py: the processor time of a call, of the side that it costs more."""

import math

import pytest
from traces import Made, run_of

from kvstore.measure import Cpu
from kvstore.measure.price import busy, pace_s, paced_s, price_s, serial_s

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
    host = {"cores": 4}
    run = run_of(FOUR, client_cpu=Cpu(0.3, 0.2), server_cpu=Cpu(0.1, 0.1), window_s=2.0, host=host)

    assert busy(run) == pytest.approx(0.25)


def test_where_nothing_was_seen_or_sent_there_is_no_price():
    assert math.isnan(price_s(run_of(FOUR)).dearer_s)
    assert math.isnan(busy(run_of(FOUR)))
    assert math.isnan(price_s(run_of([], client_cpu=Cpu(1.0, 1.0))).dearer_s)


def test_what_grpc_does_beside_the_loop_is_paid_but_not_waited_for():
    cpu = {"client_cpu": Cpu(0.5, 0.3, 0.4), "server_cpu": Cpu(0.8, 0.4, 0.6)}
    run = run_of(FOUR, **cpu, host={"cores": 4}, window_s=2.0)

    assert price_s(run).together_s == pytest.approx(0.5)
    assert serial_s(run) == pytest.approx((0.1, 0.15))
    assert pace_s(run) == pytest.approx(0.15)
    assert busy(run) == pytest.approx(0.3)


@pytest.mark.parametrize(("cores", "each_s"), [(1, 0.5), (2, 0.25), (8, 0.15)])
def test_too_few_cores_set_the_pace(cores, each_s):
    """All the work there is, over the cores there are, if that takes longer than one thread."""
    cpu = {"client_cpu": Cpu(0.5, 0.3, 0.4), "server_cpu": Cpu(0.8, 0.4, 0.6)}

    run = run_of(FOUR, **cpu, host={"cores": cores})

    assert pace_s(run) == pytest.approx(each_s)
    assert paced_s(run) == pytest.approx((each_s * 0.1 / 0.15, each_s))
