"""No child and no private folder outlives its parent, by whatever way the parent goes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from kvstore.subprocesses import child, shielded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")

HANG_S = 15.0
PARENT = """
import os, sys, threading, time
from kvstore.server import serving

{before}
with serving() as server:
    print(server.pid, server.address, flush=True)
    sys.stdin.readline()  # until the test has found the server, which may end at once now
    {inside}
"""


@contextmanager
def parent(inside: str = "time.sleep(60)", before: str = "") -> Iterator[tuple]:
    """A Python process that serves, in a group of its own; it and its server's process."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(inside=inside, before=before)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        assert process.stdin is not None
        server = psutil.Process(int(line.split()[0]))
        process.stdin.write("\n")
        process.stdin.flush()
        try:
            yield process, server
        finally:
            process.kill()
            if server.is_running():
                server.kill()


def ended_within(seconds: float, process: psutil.Process) -> bool:
    """Whether the process ends in time; one that only its parent's `wait` is missing has ended."""
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "raise RuntimeError"])
def test_however_its_parent_ends_the_server_ends_within_a_second(end):
    with parent(end) as (process, server):
        process.wait(HANG_S)

        assert ended_within(1.0, server)


@pytest.mark.slow
def test_a_forked_child_that_holds_the_pipe_does_not_keep_the_server():
    """Then the server's input never ends; it sees that its parent is another."""
    hold = (
        "pid = os.fork()\n    (time.sleep(30), os._exit(0)) if not pid else print(pid, flush=True)"
    )
    with parent(f"{hold}\n    time.sleep(60)") as (process, server):
        holder = psutil.Process(int(process.stdout.readline()))
        process.kill()
        process.wait(HANG_S)
        gone, holding = ended_within(1.0, server), holder.is_running()
        holder.kill()

        assert gone
        assert holding


STARTED = {"module kvstore.server": "grpc", "program true": "ctypes"}
"""What is started as a child, and a package that it imports."""
STARTS_A_CHILD = """
import os, sys, time
from kvstore.subprocesses import _command, process

*what, os.environ["PYTHONPATH"] = sys.argv[1:]
with process(_command(*what)) as started:
    print(started.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def importing(tmp_path) -> Path:
    """Is there once a child imports the package that `slow_to_import` made."""
    return tmp_path / "importing"


def slow_to_import(package: str, importing: Path) -> str:
    """A folder for PYTHONPATH, with a package of this name whose import takes a minute."""
    (importing.parent / package).mkdir()
    (importing.parent / package / "__init__.py").write_text(
        f"import pathlib, time; pathlib.Path({str(importing)!r}).touch(); time.sleep(60)"
    )
    return os.pathsep.join([str(importing.parent), os.getcwd()])


def wait_for(path: Path) -> None:
    end_s = time.perf_counter() + HANG_S
    while not path.exists():
        assert time.perf_counter() < end_s, f"{path} did not come"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("what", STARTED)
def test_a_child_that_still_imports_its_packages_ends_with_its_parent(what, importing):
    """On a busy machine imports take seconds, and a killed parent left the child for as long."""
    command = [*what.split(), slow_to_import(STARTED[what], importing)]
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_CHILD, *command], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        try:
            wait_for(importing)
            parent.kill()
            parent.wait(HANG_S)

            assert ended_within(HANG_S, process)
        finally:
            parent.kill()
            if process.is_running():
                process.kill()


STARTS_A_FOLDER = """
import time
from kvstore.subprocesses import private_folder

with private_folder("kept-") as folder:
    (folder / "data").mkdir()
    (folder / "data" / "token").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_private_folder_is_deleted_however_its_process_ends(signum):
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_FOLDER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert (folder / "data" / "token").exists()
        (keeper,) = psutil.Process(owner.pid).children()
        owner.send_signal(signum)
        owner.wait(HANG_S)

        assert ended_within(HANG_S, keeper)
        assert not folder.exists()


@pytest.mark.slow
def test_ctrl_c_in_the_parents_group_does_not_reach_the_server():
    """Interrupting a notebook cell signals the kernel's whole process group."""
    inside = """pass
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        pass
    time.sleep(0.5)
    print(server.alive(), flush=True)"""
    with parent(inside) as (process, server):
        assert "ready" == process.stdout.readline().strip()
        os.killpg(process.pid, signal.SIGINT)

        assert "True" == process.stdout.readline().strip()
        assert os.getpgid(process.pid) == process.pid
        process.wait(HANG_S)
        assert ended_within(1.0, server)


def test_an_interrupt_waits_until_the_end_is_in_order():
    """Else Ctrl-C at the wrong moment would leave a process behind."""
    steps = []

    def stop() -> None:
        with shielded():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            steps.append("stopped")

    with pytest.raises(KeyboardInterrupt):
        stop()

    assert ["stopped"] == steps
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)


def test_an_interrupt_at_the_start_of_a_process_leaves_none(monkeypatch):
    """It comes when the process runs, and before its parent knows so."""

    class InterruptedAtItsStart(subprocess.Popen):
        def __init__(self, *command, **how):
            super().__init__(*command, **how)
            signal.raise_signal(signal.SIGINT)

    before = psutil.Process().children()
    monkeypatch.setattr(subprocess, "Popen", InterruptedAtItsStart)
    with pytest.raises(KeyboardInterrupt), child("kvstore.server", []):
        pytest.fail("the block must not begin")

    assert before == psutil.Process().children()


@pytest.mark.slow
def test_a_child_that_does_not_listen_is_ended_anyway(tmp_path, monkeypatch):
    source = "import time\nfrom kvstore.subprocesses import listen\nlisten(lambda: None)\n"
    (tmp_path / "stubborn.py").write_text(f"{source}print('here', flush=True); time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started_s = time.perf_counter()
    with child("stubborn", [], grace_s=0.1) as process:
        first = process.first_line(HANG_S)

    assert "here" == first
    assert -signal.SIGKILL == process.popen.returncode
    assert time.perf_counter() - started_s < HANG_S


@pytest.mark.slow
def test_what_a_child_says_on_standard_error_is_kept(tmp_path, monkeypatch):
    """Any amount of it: a pipe that is not read would block the child."""
    (tmp_path / "loud.py").write_text("import sys; sys.stderr.write('x' * 1_000_000); sys.exit(5)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with child("loud", []) as process:
        assert "" == process.first_line(HANG_S)
        assert 5 == process.ended(HANG_S)
        assert 1_000_000 == len(process.error_text())


SIGNALLED = """
import signal, threading
from kvstore.subprocesses import on_signals

lock, stopped = threading.Lock(), threading.Event()

def stop():
    with lock:
        stopped.set()

on_signals(stop)
with lock:  # as inside `Event.wait`, which holds the lock that `Event.set` takes
    signal.raise_signal(signal.SIGTERM)
stopped.wait()
print("stopped")
"""


def test_a_signal_stops_a_process_that_holds_the_lock_of_the_action():
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=60
    )

    assert ended.stdout == "stopped\n", ended.stderr
