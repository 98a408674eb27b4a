"""Clients of other projects: found, run in bounded time, and counted by the server."""

import math

import pytest
from made_runs import staircase

from kvstore.client import load
from kvstore.client.strategies import tasks
from kvstore.client.workload import reads
from kvstore.course.lessons.lesson_06 import external_clients
from kvstore.course.lessons.lesson_06.external_clients import parse

OUTPUT = """
finished in 1.03s, 675.00 req/s, 41.15KB/s
requests: 675 total, 775 started, 675 done, 675 succeeded, 0 failed, 0 errored, 0 timeout
                     min         max         mean         sd        +/- sd
time for request:     1.87ms       1.25s     131.68ms     62.41ms    67.85%
time for connect:      143us       347us       246us        64us    60.00%
time to 1st byte:     3.72ms    254.34ms    104.86ms    104.71ms    80.00%
req/s           :      58.70       69.63       65.99        4.31    80.00%
"""


OUTPUT_OF_1_70 = """
finished in 215.83ms, 92.67 req/s, 9.71KB/s
requests: 20 total, 20 started, 20 done, 20 succeeded, 0 failed, 0 errored, 0 timeout
                 min         max         median      p95         p99         mean        sd         +/- sd
request     :    15.27ms     26.08ms     20.60ms     26.08ms     26.08ms     20.67ms      1.79ms    90.00%
connect     :      576us       576us       576us       576us       576us       576us         0us   100.00%
TTFB        :    15.89ms     15.89ms     15.89ms     15.89ms     15.89ms     15.89ms         0us   100.00%
req/s       :      93.99       93.99       93.99       93.99       93.99       93.99        0.00   100.00%
"""  # noqa: E501 - as it is printed


@pytest.fixture(params=["h2load", "ghz"])
def peer(request):
    if external_clients.path_of(request.param) is None:
        pytest.skip(f"{request.param} is not installed; .ci/run installs it where it can")
    return getattr(external_clients, request.param)


@pytest.fixture
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(external_clients, "OURS", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_h2loads_table_is_read_in_milliseconds():
    table = parse(OUTPUT)

    assert [1.87, 1250.0, 131.68, 62.41, 67.85] == list(table.loc["request (ms)"])
    assert [0.143, 0.347, 0.246, 0.064, 60.0] == pytest.approx(list(table.loc["connect (ms)"]))
    assert [58.7, 69.63, 65.99, 4.31, 80.0] == list(table.loc["calls/s of a connection"])


def test_the_table_of_a_later_h2load_has_other_names_and_more_columns():
    table = parse(OUTPUT_OF_1_70)

    assert [15.27, 26.08, 20.67, 1.79, 90.0] == list(table.loc["request (ms)"])
    assert [93.99, 93.99, 93.99, 0.0, 100.0] == list(table.loc["calls/s of a connection"])


def test_a_table_that_cannot_be_read_is_an_error():
    for output in ("", OUTPUT.replace("time for connect", "?"), OUTPUT.replace("1.87ms", "soon")):
        with pytest.raises(external_clients.PeerFailed, match="h2load printed"):
            parse(output)


@pytest.mark.slow
def test_a_peer_is_answered_ok_as_often_as_it_says(peer, quick_server):
    run = peer(quick_server, connections=3, streams=2, requests=60)

    assert run.all_ok
    assert (60, 60, 60) == (run.requests, run.succeeded, run.answered_ok)
    assert run.throughput_per_s == 60 / run.window_s
    assert "request (ms)" in run.table.index
    assert run.table.loc["request (ms)", "min"] > 0
    assert not math.isnan(run.table.loc["request (ms)", "within 1 sd (%)"])


@pytest.mark.slow
def test_what_http_calls_a_success_is_not_taken_for_one(quick_server, monkeypatch):
    """An unknown method: UNIMPLEMENTED inside HTTP 200, and only the server knows."""
    if external_clients.path_of("h2load") is None:
        pytest.skip("h2load is not installed")
    monkeypatch.setattr(external_clients, "METHOD", "kvstore.v1.KeyValueService/Unknown")
    run = external_clients.h2load(quick_server, requests=20)

    assert (20, 0, False, 0.0) == (
        run.succeeded,
        run.answered_ok,
        run.all_ok,
        run.throughput_per_s,
    )


@pytest.mark.slow
def test_a_peer_that_takes_too_long_is_stopped(peer, own_server):
    server = own_server(read_delay_s=0.2)
    with pytest.raises(
        external_clients.PeerFailed, match=r"did not end within 0\.3 s and was stopped"
    ):
        peer(server, requests=100, timeout_s=0.3)
    assert server.alive()


@pytest.mark.slow
def test_a_missing_program_says_how_to_install_it(nothing_installed, own_server, capsys):
    server = own_server(read_delay_s=0)
    for name in ("h2load", "ghz"):
        assert not external_clients.found(name)
        assert "is not installed here" in capsys.readouterr().out
        with pytest.raises(
            external_clients.NotInstalled, match=f"{name} is not installed here. .*install"
        ):
            getattr(external_clients, name)(server, requests=1)


def test_invalid_numbers_are_refused():
    for numbers, words in (
        ({"connections": 0, "requests": 1}, "connections must be a whole number"),
        ({"streams": 1.5, "requests": 1}, "streams must be a whole number"),
        ({"connections": 2, "streams": 3, "requests": 5}, "need at least 6 requests"),
    ):
        with pytest.raises(ValueError, match=words):
            external_clients.h2load("127.0.0.1:1", **numbers)


@pytest.mark.slow
def test_a_peer_runs_beside_ours_in_the_same_layout(quick_server):
    ours = {"a": load.run(tasks, quick_server, reads(), in_flight=6, connections=2, calls=30)}
    for program in ("h2load", "ghz"):
        theirs = external_clients.beside(program, quick_server, ours)
        if external_clients.path_of(program) is None:
            assert {} == theirs
            continue
        assert ["a"] == list(theirs)
        assert (2, 3, 30) == (theirs["a"].connections, theirs["a"].streams, theirs["a"].requests)
        assert theirs["a"].all_ok


def test_only_runs_whose_connections_were_counted_are_laid_out_again():
    with pytest.raises(ValueError, match="the run a had 0 connections"):
        external_clients.beside("h2load", "127.0.0.1:1", {"a": staircase()})
    with pytest.raises(ValueError, match="program must be one of h2load, ghz, got 'wrk'"):
        external_clients.beside("wrk", "127.0.0.1:1", {})
