"""What a load test writes: a table, JSON, CSV, one page of HTML; conditions and exit statuses."""

import csv
import html
import io
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from greeter import greeter
from orders import PING, WATCH, orders
from test_levels_and_steps import GOOD

from kvstore.load_test.__main__ import main
from kvstore.load_test.levels import Calibration

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture
def load(service, capsys):
    def loaded(*arguments, method=PING, address=service.address):
        status = main([address, method, "-q", *map(str, arguments)])
        return status, *capsys.readouterr()

    return loaded


QUICK = ("--no-calibration", "-n", 60, "-c", 3)


def test_json_has_the_figures_of_the_run(load):
    status, out, _ = load(*QUICK, "-o", "json")
    run = json.loads(out)["run"]

    assert 0 == status
    assert 60 == sum(each["calls"] for each in run["histogram"])
    assert run["latency_s"]["p50"]["value_s"] <= run["slowest"][0]["latency_s"]
    assert "OK" == run["slowest"][0]["status"]


def test_csv_has_a_row_for_each_call(load):
    status, out, _ = load(*QUICK, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))

    assert 0 == status
    assert 60 == len(rows)
    assert {"OK"} == {each["status"] for each in rows}
    assert all(float(each["latency_s"]) > 0 for each in rows)


def test_a_page_has_the_prediction_then_the_run_in_80_columns_and_four_pictures(load):
    with greeter(work_s=0.02, workers=2) as slow:  # few calls take little of the processor
        flags = ("-s", "0.3s", "-c", 3, "-o", "html")
        status, out, _ = load(*flags, method="greeter.v1.Greeter/Hello", address=slow.address)
    data = re.search(r'<script type="application/json" id="report">(.*?)</script>', out, re.S)
    text = html.unescape("\n".join(re.findall(r"<pre>(.*?)</pre>", out, re.S)))

    assert 0 == status
    assert 80 >= max(map(len, text.splitlines()))
    places = [
        text.find(word)
        for word in ("ceiling ", "knee ", "predicted ", "measured ", "p99", "histogram", "slowest")
    ]
    assert -1 < min(places)
    assert sorted(places) == places
    assert 4 == out.count("<svg ")
    assert out.count("<circle") > len(json.loads(data[1])["calibration"]["levels"])
    assert not re.search(r'(?:src|href)="?http', out)
    assert "nan" not in " ".join(re.findall(r"<svg.*?</svg>", out, re.S))


def test_a_name_that_looks_like_markup_is_shown_as_text(load):
    _, out, _ = load(*QUICK, "-o", "html", "--check", 'text == "<script>"')

    assert "&lt;script&gt;" in out
    assert out.count("<script") == 1


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ("p99 > 1us", 1),
        ("errors > 0.1%", 0),
        ("throughput > 1", 1),
        ("p99 > 1", 2),
    ],
)
def test_a_condition_decides_the_exit_status(load, condition, status):
    assert status == load(*QUICK, "--fail-if", condition)[0]


def test_a_stream_that_never_ends_is_cut_and_its_messages_are_counted(load):
    limit = ("--stream-messages", 3)
    status, out, _ = load("--no-calibration", "-n", 10, "-o", "json", *limit, method=WATCH)
    run = json.loads(out)["run"]

    assert 0 == status
    assert {"OK": 10} == run["statuses"]
    assert 30 == run["settings"]["streams"]["messages"]


@pytest.mark.alone  # a busy machine ends a stream by its deadline before it is cut
def test_a_stream_cut_by_time_has_no_ceiling_and_no_rate(load):
    cut = ("--stream-time", "0.1s")
    status, out, _ = load("-n", 4, "-o", "json", *cut, method=WATCH)
    report = json.loads(out)

    assert 0 == status
    assert "calibration" not in report
    assert {"OK": 4} == report["run"]["statuses"]

    status, _, err = load("--find-rate", "--p99", "1s", *cut, method=WATCH)
    assert 2 == status
    assert "--stream-messages" in err


def test_a_search_for_what_no_rate_can_meet_says_so_and_tries_none(load, monkeypatch):
    known = Calibration(levels=GOOD, machine_cores=2)
    monkeypatch.setattr("kvstore.load_test.session.calibrate", lambda *_, **__: known)
    status, out, _ = load("--find-rate", "--p99", "1us", "-o", "json")
    result = json.loads(out)["search"]

    assert 1 == status
    assert "one call alone takes" in result["limit"]
    assert (0, []) == (result["rate_per_s"], result["steps"])


def test_a_run_in_which_every_call_fails_ends_with_1(files, capsys):
    with orders(files, answers=2) as failing:  # the calls before the run
        status = main([failing.address, PING, "-q", "--no-calibration", "-n", "20"])

    assert 1 == status
    assert "100 %" in capsys.readouterr().out


def test_steps_and_a_ramp_are_open_loops(load):
    status, out, _ = load("--no-calibration", "--steps", "100:0.2s,200..400:0.2s", "-o", "json")
    run = json.loads(out)["run"]

    assert 0 == status
    assert "from the due time" == run["latency_from"]
    assert 40 < run["issued"] < 140  # 80 on average, in random gaps


@pytest.mark.parametrize("module", ["load_test", "server", "client"])
def test_the_commands_need_nothing_of_the_lessons(module):
    """`pip install .` brings what the extra `course` does not name."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.match(r"[\w-]+", each)[0] for each in extras["optional-dependencies"]["course"]}
    forbid = f"import sys\nfor name in {sorted(names | {'IPython', 'scipy', 'pandas'})}:"
    code = f"{forbid}\n    sys.modules[name] = None\nfrom kvstore.{module} import __main__\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
