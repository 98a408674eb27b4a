"""`course.py bench`: names, files, and one real round of every kind of row."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest

from benchmarks.__main__ import NAMES, main
from benchmarks.peers.bare import bare
from benchmarks.plans import IN_FLIGHT, Plan, make, plans, round_of
from benchmarks.results import Results, Round, Row
from benchmarks.table import over_bare, shown
from kvstore.client import run_in_process, strategies, workload
from kvstore.cpu_idle import KEPT, kept_awake
from kvstore.measure import cores

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_name_that_is_none_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        main(["tabel"])

    assert f"no benchmark is called tabel; there are {', '.join(NAMES)}" in capsys.readouterr().err


def test_comparing_takes_one_file_or_two_and_no_names(capsys, subtests):
    for arguments in [["table", "--compare", "a"], ["--compare", "a", "b", "c"]]:
        with subtests.test(arguments=arguments):
            with pytest.raises(SystemExit):
                main(arguments)

            assert "--compare" in capsys.readouterr().err


def test_a_wrong_file_is_refused_before_any_measurement(tmp_path: Path, capsys):
    other = tmp_path / "notes.json"
    other.write_text("[1, 2]")

    assert main(["--compare", str(other)]) == 1
    assert (
        "notes.json is JSON without a format, so no benchmark wrote it" in capsys.readouterr().err
    )


def test_two_files_are_compared_without_a_run(tmp_path: Path, capsys):
    for name, rate in (("old", 100.0), ("new", 150.0)):
        row = Row("asyncio", "tasks", 100, rounds=[Round(rate + n, 1.0, 1.0) for n in range(3)])
        Results({}, [row], {}, name).save(tmp_path / name)

    assert main(["--compare", str(tmp_path / "old"), str(tmp_path / "new")]) == 0
    assert "asyncio: tasks x100 (higher)" in capsys.readouterr().out


def _append_cores_kept_awake(measured: list[int], *_: object) -> None:
    measured.append(kept_awake())


@pytest.mark.slow
def test_cores_are_kept_awake_while_it_measures_if_requested(monkeypatch, capsys, subtests):
    for awake in [True, False]:
        with subtests.test(awake=awake):
            monkeypatch.delenv(KEPT, raising=False)
            measured: list[int] = []
            look = partial(_append_cores_kept_awake, measured)
            monkeypatch.setattr("benchmarks.__main__._one", look)

            assert main(["recording", *(["--awake"] if awake else [])]) == 0

            assert measured == [cores() if awake else 0]
            assert f"cores_kept_awake: {measured[0]}" in capsys.readouterr().out


# ---- the rows ------------------------------------------------------------------------------


def test_every_row_has_a_name_of_its_own_and_comes_after_its_bare_loop(subtests):
    for quick in [True, False]:
        with subtests.test(quick=quick):
            names = [plan.row().name for plan in plans(quick)]

            assert len(set(names)) == len(names)
            for plan in plans(quick):
                bare_name = plan.row().bare
                if bare_name:
                    assert names.index(bare_name) < names.index(plan.row().name)


def test_every_strategy_is_measured_on_both_servers_and_at_every_size_where_it_makes_sense():
    found = [plan for plan in plans(quick=False) if plan.strategy is not None]

    for server in ("asyncio", "threads"):
        assert set(strategies.STRATEGIES) == {p.strategy for p in found if p.server == server}
        crowds = (strategies.bounded, strategies.chained, strategies.tasks, strategies.pipelined)
        for strategy in crowds:
            sizes = {p.in_flight for p in found if (p.server, p.strategy) == (server, strategy)}
            assert set(IN_FLIGHT) == sizes


def test_ratios_are_taken_round_by_round():
    """The machine slowed down to a tenth in the second round, and both with it."""
    ours = Row("s", "ours", 1, rounds=[Round(90.0, 1, 1), Round(9.0, 1, 1), Round(80.0, 1, 1)])
    theirs = Row("s", "bare", 1, rounds=[Round(100.0, 1, 1), Round(10.0, 1, 1), Round(100.0, 1, 1)])

    assert pytest.approx(0.9) == over_bare(ours, theirs)


def test_the_table_shows_what_was_measured_and_nothing_else():
    measured = Row(
        "s", "ours", 10_000, predicted_per_s=200.0, binds="server CPU",
        rounds=[Round(100.0, 1e-4, 2e-4, 2048.0, 1024.0, 3), Round(200.0, 1e-4, 2e-4)],
    )  # fmt: skip
    (row,) = shown(Results({}, [measured, Row("s", "not yet", 1)], {}, ""))

    assert ("150", "100 to 200", "0.75") == (
        row["operations/s"], row["spread"], row["over predicted"],
    )  # fmt: skip
    assert ("100 / 200", "2.0 / 1.0", 3) == (
        row["CPU us client/server"], row["KiB/call client/server"], row["lost"],
    )  # fmt: skip
    assert ("", "") == (row["over bare"], row["CPU over bare"])


@pytest.mark.slow
def test_a_bare_loop_answers_and_tells_its_price(quick_server):
    done = bare("stream", quick_server, in_flight=3, seconds=0.2, streams=2, batch=1)

    assert done.per_s > 0
    assert done.client_cpu_s >= 0 <= done.server_cpu_s


@pytest.mark.slow
def test_a_bare_loop_that_fails_says_why(quick_server):
    with pytest.raises(RuntimeError, match=r"(?s)the bare nothing loop ended early.*invalid"):
        bare("nothing", quick_server, in_flight=1, seconds=0.1)


@pytest.mark.slow
def test_a_round_of_our_own_loses_nothing(quick_server):
    plan = Plan(
        "asyncio", "pipelined", 20, strategies.pipelined, options=(("streams", 2), ("batch", 8))
    )
    done = make(plan, quick_server, 0.2)

    assert done.lost == 0
    assert done.per_s > 0


@pytest.mark.slow
def test_what_is_not_answered_ok_is_lost(own_server):
    writes = workload.Workload(mix={"create": 1}, value_bytes_mean=16)
    slow = own_server(write_delay_s=1.0)
    run = run_in_process(strategies.blocking, slow, writes, calls=20, deadline_s=0.005)

    assert round_of(run, memory=False).lost == 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent to a process another way there")
def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing_running(tmp_path: Path):
    path = tmp_path / "kept.json"
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks", "--quick", f"--save={path}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as bench:  # fmt: skip
        assert bench.stderr is not None
        for line in bench.stderr:  # each step of the progress line ends with a carriage return
            if "asyncio: blocking x1:" in line:
                break
        started = psutil.Process(bench.pid).children(recursive=True)
        bench.send_signal(signal.SIGINT)
        said = bench.communicate(timeout=60)[0]
    kept = Results.load(path)

    assert bench.returncode == 130
    assert f"stopped; {path} has the rounds measured until then" in said
    assert "asyncio: blocking x1" in [row.name for row in kept.rows if row.rounds]
    # One that had only just been started hears of it from its lifeline, a moment later.
    left = psutil.wait_procs(started, timeout=10)[1]
    assert [] == [process for process in left if process.status() != psutil.STATUS_ZOMBIE]
