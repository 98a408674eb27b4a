"""`rpcload report`, `compare` and `merge`, on saved runs that are made by hand."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from test_levels_and_steps import run_of_recorder

from kvstore.load_test.__main__ import main
from kvstore.load_test.saved import compared
from kvstore.measure import Run
from kvstore.measure.recorder import Recorder
from kvstore.protocol import STATUSES

UNAVAILABLE = STATUSES.index("UNAVAILABLE")


def a_run(mean_s=0.01, *, calls=2000, failing=0.0, seed=1, method="a.B/C", **facts):
    """Calls that are due every 10 ms, with latencies from an exponential distribution."""
    draw, recorder = np.random.default_rng(seed), Recorder()
    kind = recorder.kind("c")
    for number, took_s in enumerate(draw.exponential(mean_s, calls)):
        at_s, status = number / 100, UNAVAILABLE if draw.random() < failing else 0
        recorder.record(at_s, at_s, at_s + took_s, kind, status, 1, 1)
    run = run_of_recorder(recorder, rate_per_s=100, kinds=recorder.kinds, **facts)
    settings = {**run.settings, "workload": {"method": method}, "duration_s": calls / 100}
    return replace(run, settings=settings)


@pytest.fixture
def save(tmp_path):
    return lambda name, run: str(run.save(tmp_path / name))


def test_a_saved_run_is_reported_in_every_form(save, capsys):
    file = save("a.npz", a_run())
    outputs = {}
    for form in ("text", "json", "csv", "html"):
        assert 0 == main(["report", file, "--output", form])
        outputs[form] = capsys.readouterr().out

    assert "measured" in outputs["text"]
    assert 2000 == json.loads(outputs["json"])["run"]["issued"]
    assert 2000 == len(list(csv.DictReader(io.StringIO(outputs["csv"]))))
    assert "<h1>a.B/C</h1>" in outputs["html"]


@pytest.mark.parametrize(
    ("second", "status", "worse"),
    [
        ({"seed": 2}, 0, []),
        ({"seed": 2, "mean_s": 0.02}, 1, ["p50", "p90", "p99"]),
        ({"seed": 2, "mean_s": 0.005}, 0, []),
        ({"seed": 2, "failing": 0.2}, 1, ["failed"]),
    ],
)
def test_a_slower_run_ends_with_one(save, capsys, second, status, worse):
    files = save("a.npz", a_run()), save("b.npz", a_run(**second))
    ended = main(["compare", *files, "--output=json"])
    comparison = json.loads(capsys.readouterr().out)
    text = main(["compare", *files])

    assert status == ended == text
    assert worse == comparison["worse"]
    assert ("B is worse by" in capsys.readouterr().out) == bool(status)


def test_the_interval_of_a_ratio_holds_the_true_one_about_as_often_as_it_says():
    """Two runs of one service: the true ratio is 1."""
    draw = np.random.default_rng(3)
    held = []
    for _ in range(150):
        pair = [a_run(calls=600, seed=int(draw.integers(1 << 30))) for _ in range(2)]
        held.append([each.ratio.low <= 1 <= each.ratio.high for each in compared(*pair)][:2])

    assert (0.9 <= np.mean(held, axis=0)).all()
    assert (np.mean(held, axis=0) <= 0.99).all()


def test_runs_of_several_machines_become_one_on_their_clocks(save, capsys, tmp_path):
    files = [
        save(f"{n}.npz", a_run(seed=n, calls=500, started_at=f"2026-01-01T12:00:0{n}.500+00:00"))
        for n in (1, 2)
    ]
    status = main(["merge", *files, "--save", str(tmp_path / "all.npz"), "--output=json"])
    run, whole = json.loads(capsys.readouterr().out)["run"], Run.load(tmp_path / "all.npz")

    assert 0 == status
    assert 1000 == run["issued"] == whole.issued
    assert 200 == run["settings"]["rate_per_s"]
    assert 2 == run["settings"]["processes"]
    starts_s = np.sort(whole.records["due_s"])
    assert (starts_s[0], starts_s[-1]) == pytest.approx((0.0, 1.0 + 4.99))
    assert whole.window_s == pytest.approx(whole.records["done_s"].max(), rel=0.02)


def test_other_files_and_runs_of_other_methods_are_refused(save, capsys, tmp_path):
    (tmp_path / "no.npz").write_text("no run")
    good, other = save("a.npz", a_run()), save("b.npz", a_run(method="x.Y/Z"))
    for arguments, says in (
        (["report", str(tmp_path / "no.npz")], "is not a saved run"),
        (["report", str(tmp_path / "missing.npz")], "does not exist"),
        (["compare", good, other], "one method"),
        (["merge", good, other], "one method"),
        (["merge"], "Missing argument"),
    ):
        assert 2 == main(arguments)
        assert says in capsys.readouterr().err
