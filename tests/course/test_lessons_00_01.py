"""Lessons 00 and 01: the audit, published benchmarks, and the models of the questions."""

import dataclasses
import json
import re

import numpy as np
import pytest
from made_runs import run_of, staircase

from kvstore.course.experiments.published_benchmarks import CONNECT, GRPC_BENCH, WRK
from kvstore.course.lessons.lesson_00 import questions as lesson_00
from kvstore.course.lessons.lesson_01 import questions as lesson_01
from kvstore.course.views import counting_table
from kvstore.measure import Cpu, audit
from kvstore.protocol import KINDS


@pytest.mark.parametrize("rows", [slice(0, None, 2), slice(7, None), slice(0, 1), [0, 1, 1, 2, 2]])
def test_littles_law_holds_for_any_part_of_the_records_and_the_count_does_not(rows):
    run = staircase(40, in_flight=4)
    part = dataclasses.replace(run, records=np.atleast_1d(run.records[rows]))

    assert audit(part).relative_error < 1e-9
    assert not audit(part).holds
    assert audit(run).holds


def test_the_table_of_counts_shows_the_deleted_rows():
    run = dataclasses.replace(staircase(40), server={"operations": {"create/OK": 40}})
    cut = dataclasses.replace(
        run, records=run.records[run.records["kind"] != KINDS.index("create")]
    )
    table = counting_table({"all": run, "cut": cut})

    assert table["L (mean in flight)"].tolist() == table["X·R"].tolist()
    assert table["calls sent"].tolist() == [40, 40]
    assert table["calls recorded"].tolist() == [40, 30]
    assert table["calls counted by the server"].tolist() == [40, 40]


def test_the_bound_of_the_processor_takes_the_part_of_the_loop():
    """gRPC's own threads work beside the loop: their time is no demand on the interpreter."""
    run = dataclasses.replace(
        staircase(1000, in_flight=20),
        client_cpu=Cpu(0.10, 0.02, loop_s=0.08),
        server_cpu=Cpu(0.30, 0.10, loop_s=0.30),
    )

    assert 1000 / 0.40 < lesson_00.most_of(run).value <= 1000 / 0.26 + 1e-6


def test_the_part_of_the_contract_that_is_shown_is_in_the_contract(repo_root):
    contract = (repo_root / "proto/kvstore/v1/kvstore.proto").read_text("utf-8")
    cells = json.loads((repo_root / "notebooks/00_start_here.ipynb").read_text("utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells)
    (shown,) = re.findall(r"```proto\n(.*?)```", prose, re.S)

    assert [] == [line for line in shown.splitlines() if line.strip() not in contract]


def test_the_audit_of_published_benchmarks():
    assert CONNECT.in_flight_mean == pytest.approx(405, abs=0.5)
    assert WRK.in_flight_mean == pytest.approx(0.8, abs=0.001)
    assert GRPC_BENCH.share == pytest.approx(0.996, abs=0.0005)


def test_the_model_of_the_mix_is_built_from_the_mix_that_was_sent_and_the_round_trip():
    reads = run_of([(0.0, 0.012, "retrieve"), (0.012, 0.024, "retrieve")])
    mixed = run_of([(0.0, 0.052, "create"), (0.052, 0.064, "retrieve")])

    assert lesson_01.round_trip_s(reads) == pytest.approx(0.002)
    assert lesson_01.of_mix(reads, mixed).value == pytest.approx(1 / (0.030 + 0.002))


def test_the_widgets_draw_the_laws():
    assert lesson_00.calls_in_flight(40, 50).value == pytest.approx(2.0)
    assert lesson_01.one_at_a_time(0, 10, 50).value == pytest.approx(20.0)
    assert lesson_01.one_at_a_time(50, 10, 50).value == pytest.approx(1 / 0.030)
