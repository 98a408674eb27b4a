"""performance.py and performance_page.py: ratios within a round, the page, and Redis as a peer."""

import math

import pytest

from benchmarks import flame, performance
from benchmarks.performance import Case, Turns
from benchmarks.performance_page import markdown, rows, write
from benchmarks.results import Round
from kvstore.course.experiments import redis_runs

HOST = {"processor": "P", "cores": 2, "python": "3", "grpcio": "1", "uvloop": "none"}


def turns(name, *rates, bound=math.nan, cpu_s=1e-6):
    rounds = [Round(rate, cpu_s, 2 * cpu_s) for rate in rates]
    return Turns(name, lambda _: (rounds[0], bound), rounds, [rate / bound for rate in rates])


@pytest.fixture
def case():
    first = turns("first", 100.0, 200.0, 1_000.0, bound=1_000.0)
    other = turns("other", 150.0, 300.0, 500.0, cpu_s=math.nan)
    return Case("A case", "reads of 16 bytes", [first, other])


def test_ratios_are_taken_within_a_round(case):
    assert 1.5 == case.of_reference(
        case.turns[1]
    )  # the ratio of the medians would be 1.5 x 200/200
    case.turns[1].rounds[0] = Round(40.0, 0, 0)
    assert 0.5 == case.of_reference(case.turns[1])  # the median of 0.4, 1.5 and 0.5


def test_a_row_leaves_out_what_is_not_known(case):
    first, other = rows(case)
    assert ("0.200", "1 / 2") == (first["of the bound"], first["CPU us client/server"])
    assert ("", "? / ?") == (other["of the bound"], other["CPU us client/server"])
    assert "150 to 500" == other["spread"]


def test_the_page_shows_each_program_and_names_those_that_are_missing(case, tmp_path):
    case.turns[0].picture = "performance/first.svg"
    written = write(tmp_path, [case], HOST, 3, ["ghz"])
    assert ["performance.svg", "performance.md"] == [path.name for path in written]
    page = written[1].read_text(encoding="utf-8")
    assert "| first | 200 | 100 to 1,000 |" in page
    assert "[picture](performance/first.svg)" in page
    assert "left out: ghz." in page
    assert "left out" not in markdown([case], HOST, 3, [])


def test_a_file_name_has_no_character_that_a_system_refuses():
    assert "one_tasks_x100_client_stock.svg" == flame.file_name("One", "tasks x100 (client/stock)")


@pytest.mark.skipif(not performance.redis_is_installed(), reason="redis-server is not installed")
def test_redis_answers_its_own_load_generator_over_loopback():
    with redis_runs.redis_server(port=performance._free_port(), log=False) as store:
        rate = store.per_s("get", clients=1, requests=2_000, pipeline=8, keys=10, value_bytes=16)
    assert rate > 0
