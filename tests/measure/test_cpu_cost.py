"""cpu_cost.py: CPU time per call, and the demand on the bottleneck."""

import math

import pytest
from traces import Made, run_of

from kvstore.measure import Cpu
from kvstore.measure.cpu_cost import cpu_per_call_s, d_max_s, serial_s, utilisation

FOUR = [Made(0.0, 1.0)] * 4


def test_without_calls_or_processes_the_cpu_time_is_nan():
    assert math.isnan(cpu_per_call_s(run_of(FOUR)).larger_s)
    assert math.isnan(utilisation(run_of(FOUR)))
    assert math.isnan(cpu_per_call_s(run_of([], client_cpu=Cpu(1.0, 1.0))).larger_s)


def test_threads_of_grpc_count_as_cpu_time_and_not_as_serial_time():
    cpu = {"client_cpu": Cpu(0.5, 0.3, 0.4), "server_cpu": Cpu(0.8, 0.4, 0.6)}
    run = run_of(FOUR, **cpu, host={"cores": 4}, window_s=2.0)

    assert cpu_per_call_s(run).together_s == pytest.approx(0.5)
    assert serial_s(run) == pytest.approx((0.1, 0.15))
    assert d_max_s(run) == pytest.approx(0.15)
    assert utilisation(run) == pytest.approx(0.3)


def test_with_too_few_cores_the_cores_are_the_bottleneck(subtests):
    """All CPU time over the number of cores, if this is more than the serial part."""
    for cores, each_s in [(1, 0.5), (2, 0.25), (8, 0.15)]:
        with subtests.test(cores=cores, each_s=each_s):
            cpu = {"client_cpu": Cpu(0.5, 0.3, 0.4), "server_cpu": Cpu(0.8, 0.4, 0.6)}

            run = run_of(FOUR, **cpu, host={"cores": cores})

            assert d_max_s(run) == pytest.approx(each_s)
