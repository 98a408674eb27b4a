"""Each branch for Windows or macOS, run here: docs/a_class.md lists what no test replaces."""

import asyncio
import contextlib
import errno
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import psutil
import pytest
from tables import for_each

import course
from kvstore import cpu_idle, protocol, subprocesses, transport
from kvstore.course.exercises.client_trials import Sender
from kvstore.course.experiments import redis_runs, several_servers
from kvstore.measure import host
from kvstore.server import __main__ as server_command
from kvstore.server import launch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")


@pytest.fixture
def macos(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")


BRANCHES = {
    "course.py": 3,
    "kvstore/course/experiments/several_servers.py": 1,
    "kvstore/cpu_idle.py": 1,
    "kvstore/measure/host.py": 1,
    "kvstore/protocol.py": 1,
    "kvstore/server/__main__.py": 1,
    "kvstore/server/launch.py": 1,
    "kvstore/subprocesses.py": 4,
}
"""How often each file asks for the system: one more needs its own test here."""


def test_every_branch_is_known_here():
    files = [ROOT / "course.py", *(ROOT / "kvstore").rglob("*.py")]
    found = {
        path.relative_to(ROOT).as_posix(): len(
            re.findall(r"sys\.platform|os\.name\b", path.read_text("utf-8"))
        )
        for path in files
    }

    assert {name: n for name, n in found.items() if n} == BRANCHES


# ---- course.py -----------------------------------------------------------------------------------


def test_an_environment_of_windows_has_its_interpreter_in_another_place(windows, tmp_path):
    assert course.python_of(tmp_path) == tmp_path / "python.exe", "of conda"
    (tmp_path / "Scripts").mkdir()
    (tmp_path / "Scripts" / "python.exe").touch()
    assert course.python_of(tmp_path) == tmp_path / "Scripts" / "python.exe"


def test_the_lock_of_windows_is_waited_for(windows, monkeypatch, tmp_path):
    """The system says EACCES while another process holds the byte; some file systems have none."""
    said = [PermissionError(errno.EACCES, "held"), OSError(errno.ENOSYS, "no locks"), None]

    def locking(_descriptor, how, length):
        assert (how, length) == (2, 1)
        if problem := said.pop(0):
            raise problem

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    with (tmp_path / "lock").open("w") as handle:
        assert [course.locked(handle) for _ in range(3)] == [False, True, True]


def test_without_exec_the_exit_status_is_that_of_the_child(windows, monkeypatch):
    """Ctrl-C is for the child, so this process ignores it meanwhile."""
    monkeypatch.chdir(ROOT)
    usual = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            course.hand_over(Path(sys.executable), ["-c", "raise SystemExit(7)"])

        assert ended.value.code == 7
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, usual)


def test_without_user_ids_the_lab_starts_as_an_ordinary_user(monkeypatch, tmp_path):
    monkeypatch.delattr(os, "geteuid", raising=False)

    assert "--allow-root" not in course.lab_settings(tmp_path)


# ---- processes -----------------------------------------------------------------------------------


def test_a_process_is_started_and_ended_without_a_session_of_its_own(windows):
    wait = "import sys; print('here', flush=True); sys.stdin.read()"
    with subprocesses.process([sys.executable, "-c", wait]) as child:
        assert os.getsid(child.pid) == os.getsid(0)

    assert not psutil.pid_exists(child.pid)


def test_the_windows_way_to_interrupt_raises_in_the_main_thread(windows, monkeypatch):
    monkeypatch.delattr(signal, "pthread_kill", raising=False)

    with pytest.raises(KeyboardInterrupt):
        subprocesses.interrupt_main()


def test_a_parent_of_windows_lives_as_long_as_its_process_id(windows):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    assert subprocesses._lives(os.getpid())
    assert not subprocesses._lives(ended.pid)


RUN = "import sys; from kvstore import subprocesses; sys.platform = {!r}; subprocesses.main()"


@for_each("system", ["win32", "darwin"])
def test_a_program_of_another_project_ends_with_the_process_that_keeps_it(system):
    """Only Linux tells a program that its parent died; elsewhere the keeper ends it."""
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    keep = [sys.executable, "-c", RUN.format(system), f"{os.getpid()}", "program"]
    with subprocess.Popen(
        [*keep, *program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as keeper:
        pid = int(keeper.stdout.readline())
        assert psutil.pid_exists(pid)
        keeper.stdin.close()
        keeper.wait(30)

    with contextlib.suppress(psutil.NoSuchProcess):  # an adopted zombie counts as ended
        psutil.Process(pid).wait(10)


def test_a_server_of_windows_is_not_started_again_for_a_profile(windows, monkeypatch, capsys):
    monkeypatch.delenv(transport.EXPERIMENTS, raising=False)
    monkeypatch.setattr(os, "execve", None)

    server_command._restart_with(transport.POLLER.name)

    assert f"set {transport.CHOICE}=poller before the start" in capsys.readouterr().err


def test_the_server_in_go_is_not_offered_on_windows(windows, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda _name: "go.exe")

    assert not launch.go_is_installed()


@for_each("system", ["win32", "darwin"])
def test_servers_share_a_port_on_linux_only(system, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(socket, "SO_REUSEPORT", 15, raising=False)

    assert not several_servers.has_shared_ports()


# ---- event loop, clock, disk, cores --------------------------------------------------------------


def test_the_event_loop_of_windows_is_that_of_asyncio(windows, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)

    with asyncio.Runner(loop_factory=protocol.event_loop_factory()) as runner:
        assert runner.run(asyncio.sleep(0, "done")) == "done"
        assert type(runner.get_loop()).__module__.startswith("asyncio")


def test_a_write_of_macos_goes_to_the_disk_itself(macos, monkeypatch, tmp_path):
    """On macOS fsync leaves the data in the disk's own memory."""
    full = []
    monkeypatch.setitem(
        sys.modules,
        "fcntl",
        types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda _file, what: full.append(what)),
    )

    assert len(host.fsyncs_s(tmp_path, times=3)) == 3
    assert full == [51] * 3


def test_all_cores_count_where_no_process_is_held_to_some(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 5)

    assert host.cores() == 5


def test_the_lowest_priority_of_windows_and_of_macos(windows, monkeypatch):
    given = []
    monkeypatch.delattr(os, "SCHED_IDLE", raising=False)
    monkeypatch.setattr(psutil, "IDLE_PRIORITY_CLASS", 64, raising=False)
    monkeypatch.setattr(psutil, "Process", lambda: types.SimpleNamespace(nice=given.append))
    cpu_idle.lowest_priority()
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(os, "nice", given.append)
    cpu_idle.lowest_priority()
    cpu_idle.stay_on(1)  # this process has no cpu_affinity, as on macOS

    assert given == [64, 19]


def test_without_a_library_of_the_system_no_memory_is_returned_to_it(monkeypatch):
    def refuse(name):
        raise TypeError(f"bad argument type for built-in operation: {name}")

    monkeypatch.setattr(server_command.ctypes, "CDLL", refuse)

    assert server_command._library() is None


def test_where_a_thread_or_process_has_no_such_counter_the_answer_is_unknown(monkeypatch):
    monkeypatch.delattr(time, "pthread_getcpuclockid", raising=False)
    monkeypatch.setattr(psutil, "Process", lambda _pid: types.SimpleNamespace())
    stop = threading.Event()
    sender = Sender(stop.wait, (20,))
    try:
        assert not sender.polls()
    finally:
        stop.set()
    assert redis_runs.Redis.writes(types.SimpleNamespace(pid=1)) == 0
