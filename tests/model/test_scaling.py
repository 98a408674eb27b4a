"""scaling.py: numbers worked out by hand."""

import math

import pytest

from kvstore.model import scaling

UNARY = {"client_s": 100e-6, "server_s": 200e-6}


def test_the_narrowest_of_three_binds(subtests):
    for generators, servers, cores, per_s, binds in [
        # one server at 200 us: 5,000; one generator at 100 us: 10,000; 2 cores / 300 us: 6,667
        (1, 1, 2, 5_000, "servers"),
        (2, 1, 2, 5_000, "servers"),
        (1, 2, 2, 2 / 300e-6, "cores"),
        (1, 2, 4, 10_000, "generators"),
        (2, 4, 16, 20_000, "generators"),
        (2, 3, 16, 15_000, "servers"),
        (8, 8, 1, 1 / 300e-6, "cores"),
        (8, 16, math.inf, 80_000, "generators"),
    ]:
        with subtests.test(
            generators=generators, servers=servers, cores=cores, per_s=per_s, binds=binds
        ):
            predicted = scaling.throughput(
                generators=generators, servers=servers, cores=cores, **UNARY
            )

            assert predicted.value == pytest.approx(per_s)
            assert ("operations/s", binds) == (predicted.unit, predicted.binds)


def test_the_busiest_server_binds_where_keys_are_not_spread_evenly(subtests):
    for share, per_s, binds in [
        (0.25, 20_000, "servers"),
        (0.5, 10_000, "busiest server"),
        (1, 5_000, "busiest server"),
    ]:
        with subtests.test(share=share, per_s=per_s, binds=binds):
            predicted = scaling.throughput(
                generators=100, servers=4, cores=100, busiest_share=share, **UNARY
            )

            assert (pytest.approx(per_s), binds) == (predicted.value, predicted.binds)


def test_a_prediction_says_its_arithmetic(subtests):
    for given, says in [
        ({"cores": 9}, "1 server, 200 µs an operation: s / D'_server"),
        ({"cores": 9, "servers": 9}, "1 generator, 100 µs an operation: p / D'_client"),
        (
            {"cores": 1, "servers": 9},
            "1 core for 100 µs + 200 µs an operation: cores / (D_client + D_server)",
        ),
        (
            {"cores": 9, "servers": 2, "generators": 9, "busiest_share": 0.75},
            "the busiest of 2 servers gets 0.75 of the operations, 200 µs each: 1 / (q D'_server)",
        ),
    ]:
        with subtests.test(given=given, says=says):
            assert (
                says
                == scaling.throughput(**{"generators": 1, "servers": 1, **given}, **UNARY).reason
            )


def test_beyond_some_number_more_processes_are_waste(subtests):
    for cores, client_s, server_s, wanted in [
        # of 6 cores a third is the client's, two thirds the server's
        (6, 100e-6, 200e-6, (2, 4)),
        (2, 100e-6, 200e-6, (1, 2)),
        (4, 1e-6, 1e-6, (2, 2)),
        (1, 1e-6, 9e-6, (1, 1)),
    ]:
        with subtests.test(cores=cores, client_s=client_s, server_s=server_s, wanted=wanted):
            generators, servers = scaling.enough(cores=cores, client_s=client_s, server_s=server_s)
            costs = {"cores": cores, "client_s": client_s, "server_s": server_s}
            reached = scaling.throughput(generators=generators, servers=servers, **costs)
            more = scaling.throughput(generators=generators + 1, servers=servers + 1, **costs)

            assert wanted == (generators, servers)
            assert reached.value == pytest.approx(more.value)


def test_what_makes_no_sense_is_refused(subtests):
    for says, wrong in [
        ("generators must be 1 or more, got 0", {"generators": 0}),
        ("servers must be 1 or more, got 0", {"servers": 0}),
        ("cores must be 1 or more, got nan", {"cores": math.nan}),
        ("client_s must be above 0 seconds, got 0", {"client_s": 0}),
        ("server_s must be above 0 seconds, got inf", {"server_s": math.inf}),
        ("busiest_share must be from 1/2 to 1, got 0.4", {"busiest_share": 0.4}),
        ("busiest_share must be from 1/2 to 1, got 1.1", {"busiest_share": 1.1}),
    ]:
        with subtests.test(says=says, wrong=wrong), pytest.raises(ValueError, match=says):
            scaling.throughput(**{"generators": 1, "servers": 2, "cores": 2, **UNARY, **wrong})


def test_cores_without_end_never_bind():
    with pytest.raises(ValueError, match="cores must be finite, got inf"):
        scaling.enough(cores=math.inf, **UNARY)


def test_the_processes_that_fill_a_machine_follow_from_the_serial_parts(subtests):
    # 100 us and 200 us: 2 cores do 6,667/s, 64 cores 213,333/s
    for cores, serial, processes, per_s in [
        (2, {}, (1, 2), 6_666.7),
        (3, {}, (1, 2), 10_000),
        (64, {}, (22, 43), 213_333),
        (64, {"client_serial_s": 50e-6, "server_serial_s": 150e-6}, (11, 32), 213_333),
    ]:
        with subtests.test(cores=cores, serial=serial):
            (found,) = scaling.by_cores([cores], **UNARY, **serial)

            assert (found.cores, found.generators, found.servers) == (cores, *processes)
            assert found.predicted.value == pytest.approx(per_s, rel=1e-4)
            fewer = (processes[0] - 1 or 1, processes[1] - 1)
            assert (
                scaling.throughput(
                    generators=fewer[0], servers=fewer[1], cores=cores, **UNARY, **serial
                ).value
                < found.predicted.value
            )


def test_the_table_ends_at_64_cores():
    found = scaling.by_cores(**UNARY)

    assert [each.cores for each in found] == [1, 2, 4, 8, 16, 32, 64]
    assert all(each.predicted.value > 0 for each in found)
