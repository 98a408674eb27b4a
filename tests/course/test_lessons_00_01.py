"""What lessons 00 and 01 say is right, and what they claim can fail."""

import dataclasses
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kvstore.course.experiments.published_benchmarks import (
    CONNECT,
    GRPC_BENCH,
    PUBLISHED,
    WRK,
    JavaClient,
)
from kvstore.course.questions import lesson_00, lesson_01
from kvstore.course.views import counting_table
from kvstore.measure import Cpu, audit
from kvstore.model.bounds import expected_mix
from kvstore.protocol import KINDS
from tests.course.made_runs import run_of, staircase

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [
    *sorted((ROOT / "notebooks").glob("0[01]_*.ipynb")),
    *sorted((ROOT / "notebooks" / "further").glob("0[01]_*.ipynb")),
]


def prose(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


# ---- correction 1: Little's law cannot find a lost call ------------------------------------------


@pytest.mark.parametrize("rows", [slice(0, None, 2), slice(7, None), slice(0, 1), slice(3, 11)])
def test_littles_law_holds_for_any_part_of_the_records_and_the_count_does_not(rows):
    run = staircase(40, in_flight=4)
    part = dataclasses.replace(run, records=run.records[rows])

    assert audit(part).relative_error < 1e-9
    assert audit(part).issued > audit(part).recorded
    assert not audit(part).holds
    assert audit(run).holds


def test_littles_law_holds_for_rows_that_are_there_twice():
    run = staircase(40, in_flight=4)
    doubled = dataclasses.replace(run, records=np.concatenate([run.records, run.records]))

    assert audit(doubled).relative_error < 1e-9
    assert not audit(doubled).holds


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


LOST = re.compile(
    r"lost or counted twice would break|proves that no call was lost|none was lost"
    r"|no call is missing"
)


def test_nothing_says_that_the_law_finds_a_lost_call():
    quiz = str((lesson_00.QUIZ, lesson_01.QUIZ))
    texts = {path.name: prose(path) for path in NOTEBOOKS} | {"quiz": quiz}

    assert [] == [name for name, text in texts.items() if LOST.search(text)]
    right = next(o for q in lesson_01.QUIZ if q.id == "01.lost" for o in q.options if o.right)
    assert "two counts" in right.text
    doc = " ".join(str(sys.modules[audit.__module__].__doc__).split())
    assert "cannot find a lost call" in doc


# ---- corrections 2, 3, 4, 11 ---------------------------------------------------------------------


def test_no_lesson_divides_by_a_measured_residence_time_and_calls_it_a_bound():
    """X = N/W with a measured W is an identity: a bound is written with demands."""
    for path in NOTEBOOKS:
        bounds = re.findall(r"\\le[^$]*", prose(path))
        assert [] == [each for each in bounds if re.search(r"\{?[RW]\}", each)], path.name


def test_every_symbol_of_a_formula_is_on_the_page_of_symbols():
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    known = set(re.findall(r"^\| (\S+?) ", page, re.M)) | {"D_{\\max}"}
    for path in NOTEBOOKS:
        formulas = " ".join(re.findall(r"\$\$([^$]+)\$\$", prose(path)))
        bare = re.sub(r"\\text\{[^}]*\}|\\[a-z]+|_\{[^}]*\}", " ", formulas)
        assert set(re.findall(r"[A-Za-z]", bare)) <= known, path.name
    for path in NOTEBOOKS[:2]:
        assert "docs/glossary.md" in prose(path)


def test_the_bound_of_the_processor_takes_the_part_of_the_loop():
    """gRPC's own threads work beside the loop: their time is no demand on the interpreter."""
    run = dataclasses.replace(
        staircase(1000, in_flight=20),
        client_cpu=Cpu(0.10, 0.02, loop_s=0.08),
        server_cpu=Cpu(0.30, 0.10, loop_s=0.30),
    )

    assert 1000 / 0.40 < lesson_00.most_of(run).value <= 1000 / 0.26 + 1e-6
    assert "Only that part is serial" in prose(ROOT / "notebooks/further/00_cpu_per_call.ipynb")


def test_the_loop_of_the_java_client_is_described_and_not_called_the_original():
    text = prose(ROOT / "notebooks" / "01_blocking.ipynb")

    assert "it is not the original code" in text
    assert "Here\nis the loop of the published client" not in text
    assert "not the original code" in sys.modules[JavaClient.__module__].__doc__


def test_the_part_of_the_contract_that_is_shown_is_in_the_contract():
    contract = (ROOT / "proto/kvstore/v1/kvstore.proto").read_text("utf-8")
    (shown,) = re.findall(r"```proto\n(.*?)```", prose(NOTEBOOKS[0]), re.S)

    lines = [line.strip() for line in shown.splitlines() if line.strip()]
    assert [] == [line for line in lines if line not in contract]


# ---- published numbers ---------------------------------------------------------------------------


def test_a_published_number_stands_after_the_run_that_it_is_about():
    cells = json.loads((ROOT / "notebooks/01_blocking.ipynb").read_text("utf-8"))["cells"]
    text = ["".join(cell["source"]) for cell in cells]
    (run,) = [place for place, each in enumerate(text) if "java.do_client_work" in each]

    assert [] == [each for each in text[:run] if "16.55" in each or "24.28" in each]
    assert any("16.55" in each and "https://grpc.io/blog" in each for each in text[run:])


def test_the_audit_of_published_benchmarks():
    assert CONNECT.in_flight_mean == pytest.approx(405, abs=0.5)
    assert WRK.in_flight_mean == pytest.approx(0.8, abs=0.001)
    assert GRPC_BENCH.share == pytest.approx(0.996, abs=0.0005)
    assert all(each.url in prose(NOTEBOOKS[0]) for each in PUBLISHED)


# ---- each claim can fail -------------------------------------------------------------------------


def test_every_claim_of_lesson_00_can_fail():
    found = audit(staircase(20))

    assert lesson_00.disk_is_the_longest(0.0101, 0.012)
    assert not lesson_00.disk_is_the_longest(0.0099, 0.012)
    assert not lesson_00.disk_is_the_longest(0.0101, 0.030)
    assert lesson_00.in_flight_at_least(found, 0.010)
    assert not lesson_00.in_flight_at_least(found, 0.500)
    assert lesson_00.one_of_them_fits(PUBLISHED)
    assert not lesson_00.one_of_them_fits((CONNECT, WRK))
    assert lesson_00.at_most_one(0.97)
    assert not lesson_00.at_most_one(1.01)
    assert not lesson_00.at_most_one(0.4)
    assert lesson_00.medians_are_closer(0.2, 0.05)
    assert not lesson_00.medians_are_closer(0.05, 0.2)
    assert lesson_00.never_early(10.01, 10.0)
    assert not lesson_00.never_early(9.99, 10.0)
    assert lesson_00.no_more_than_the_cores(2.0, 2)
    assert not lesson_00.no_more_than_the_cores(2.4, 2)
    assert lesson_00.explained_by_the_loop(0.6, 0.7)
    assert not lesson_00.explained_by_the_loop(0.2, 0.9)


def test_every_claim_of_lesson_01_can_fail():
    run = staircase(40)
    cut = dataclasses.replace(run, records=run.records[::2])
    records = run.records.copy()
    records["done_s"][0] = records["sent_s"][0]  # ended when it began
    late = dataclasses.replace(run, records=records)
    counts = pd.Series({"create/OK": 10, "retrieve/OK": 10})

    assert lesson_01.never_before_the_disk(staircase(40), lesson_01.READ_S)
    assert not lesson_01.never_before_the_disk(late, lesson_01.READ_S)
    assert lesson_01.rates_do_not_average(23.0)
    assert not lesson_01.rates_do_not_average(38.0)
    assert lesson_01.deletes_never_lead(pd.Series(["create", "retrieve", "delete"]))
    assert not lesson_01.deletes_never_lead(pd.Series(["create", "delete", "delete", "create"]))
    assert not lesson_01.deletes_never_lead(pd.Series(["retrieve", "create"]))
    assert lesson_01.creates_are_missing(counts, 10)
    assert not lesson_01.creates_are_missing(counts, 20)
    assert not lesson_01.creates_are_missing(counts, 9)
    assert lesson_01.the_law_is_blind(audit(staircase(40)), audit(cut))
    assert not lesson_01.the_law_is_blind(audit(staircase(40)), audit(staircase(40)))
    assert not lesson_01.the_law_is_blind(audit(cut), audit(cut))
    assert lesson_01.share_of_gain(1.36) > 0.5 > lesson_01.share_of_gain(1.05)
    assert lesson_01.rises([20.0, 23.0, 24.0])
    assert not lesson_01.rises([20.0, 23.0, 23.0])
    assert lesson_01.disk_is_busier(0.9, 0.04)
    assert not lesson_01.disk_is_busier(0.9, 0.4)


# ---- the models of the questions -----------------------------------------------------------------


def test_the_model_of_the_mix_is_built_from_the_mix_that_was_sent_and_the_round_trip():
    reads = run_of([(0.0, 0.012, "retrieve"), (0.012, 0.024, "retrieve")])
    mixed = run_of([(0.0, 0.052, "create"), (0.052, 0.064, "retrieve")])

    assert lesson_01.round_trip_s(reads) == pytest.approx(0.002)
    assert lesson_01.of_mix(reads, mixed).value == pytest.approx(1 / (0.030 + 0.002))


def test_the_counter_explains_most_of_the_published_gain():
    counted = lesson_01.expected_share_counted(16.55 * 60)

    assert counted == pytest.approx(1 - expected_mix(993)["create"])
    assert lesson_01.share_of_gain(1 / counted) == pytest.approx(0.8, abs=0.02)
    assert lesson_01.share_of_gain(24.283 / 16.55) == pytest.approx(1.0)


def test_the_widgets_draw_the_laws():
    assert lesson_00.calls_in_flight(40, 50).value == pytest.approx(2.0)
    assert lesson_01.one_at_a_time(0, 10, 50).value == pytest.approx(20.0)
    assert lesson_01.one_at_a_time(100, 10, 50).value == pytest.approx(100.0)
    assert math.isclose(lesson_01.one_at_a_time(50, 10, 50).value, 1 / 0.030)
