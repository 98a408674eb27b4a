"""The judge's process: whatever an answer does, a verdict comes and the kernel is as it was."""

import ast
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import psutil
import pytest
from lessons import NOTEBOOKS, cells_of

from kvstore.course import NOT_ATTEMPTED, judging
from kvstore.course.exercises import find

ID = "00.utilisation"
pytestmark = pytest.mark.slow


def notebook_cell(source):
    """The functions of a cell, as a notebook has them: in no module that could be imported."""
    names = {"__name__": "__main__"}
    exec(compile(source, "<cell>", "exec"), names)
    return names["mine"]


def verdict_on(body):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return judging.judge(ID, notebook_cell(f"def mine(calls_per_s, cpu_us_per_call):\n{lines}"))


@pytest.fixture
def in_a_second(monkeypatch):
    """The exercise, with a time limit of one second."""
    short = dataclasses.replace(find(ID), timeout_s=1.0)
    monkeypatch.setattr(judging, "find", lambda exercise_id: short)


RIGHT = "return calls_per_s * cpu_us_per_call / 1e6"


def test_a_right_and_a_wrong_answer_get_the_verdict_of_the_exercise():
    assert verdict_on(RIGHT).passed
    assert verdict_on("return calls_per_s").outcome == "not yet"


def test_what_the_answer_prints_is_shown(capsys):
    verdict_on(f"print('seen', calls_per_s)\n{RIGHT}")

    assert "seen" in capsys.readouterr().out


def stubs_of(path):
    """The functions and classes that a learner is to write, as the lesson has them."""
    for cell in cells_of(path):
        for node in cell.tree.body:
            defines = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if defines and "NOT_ATTEMPTED" in ast.unparse(node):
                node.bases = []
                names = {"NOT_ATTEMPTED": NOT_ATTEMPTED}
                exec(compile(ast.Module([node], []), cell.id, "exec"), names)
                yield names[node.name]


def test_a_stub_needs_no_process():
    """A lesson that is only read through starts nothing for its stubs."""
    judging._judge.stop()

    stubs = [stub for path in NOTEBOOKS for stub in stubs_of(path)]
    assert {"not attempted"} == {judging.judge(ID, stub).outcome for stub in stubs}
    assert judging._judge._process is None


def test_an_error_names_its_line():
    message = verdict_on("ratio = calls_per_s / 0\nreturn ratio").message

    assert "`mine` stopped at line 2" in message
    assert "ZeroDivisionError" in message


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os._exit(4)", "exit status 4"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
        ("raise KeyboardInterrupt", "exit status"),
    ],
)
def test_an_answer_that_ends_its_process_is_told_so(body, word):
    verdict = verdict_on(body)

    assert verdict.outcome == "not yet"
    assert word in verdict.message
    assert verdict_on(RIGHT).passed


@pytest.mark.usefixtures("in_a_second")
@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import threading; threading.Event().wait()",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_an_answer_that_never_ends_is_killed(body):
    verdict = verdict_on(body)

    assert "no answer within 1 s" in verdict.message
    assert not psutil.Process(judging._judge._process.pid).children(recursive=True)


SLEEPER = "[sys.executable, '-c', 'import time; time.sleep(654)']"
BY_A_PARENT_THAT_ENDS = (
    f"import subprocess, sys; subprocess.Popen({SLEEPER}, start_new_session=True)"
)


@pytest.mark.parametrize(
    "starts",
    [
        f"subprocess.Popen({SLEEPER}, start_new_session=True)",
        f"subprocess.run([sys.executable, '-c', {BY_A_PARENT_THAT_ENDS!r}], check=True)",
    ],
)
def test_processes_of_an_answer_do_not_outlive_it(starts):
    body = (
        f"import subprocess, sys\nif not hasattr(sys, 'made'):\n    sys.made = {starts}\n" + RIGHT
    )
    assert verdict_on(body).passed
    assert gone(654)


def gone(seconds: int) -> bool:
    """Whether no process sleeps so long; the system takes a moment to end a killed one."""
    within_s = time.monotonic() + 5.0
    while (left := processes_that_sleep(seconds)) and time.monotonic() < within_s:
        time.sleep(0.05)
    return not left


def processes_that_sleep(seconds: int) -> list[psutil.Process]:
    return [
        each
        for each in psutil.process_iter(["cmdline", "status"])
        # killed, and not yet collected by the parent of orphans, is a zombie
        if f"sleep({seconds})" in str(each.info["cmdline"])
        and each.info["status"] != psutil.STATUS_ZOMBIE
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("everything = []\nwhile True: everything.append(bytearray(1 << 20))", "may use 2 GB"),
        ("with open('big', 'wb') as file: file.write(b'x' * (100 << 20))", "File too large"),
        (
            "import subprocess, sys, threading\n"
            f"made = [subprocess.Popen({SLEEPER.replace('654', '655')}) for _ in range(50)]\n"
            "threading.Event().wait()",
            "more than 32 processes",
        ),
    ],
)
def test_what_an_answer_may_use_is_limited(body, said):
    assert said in verdict_on(body).message
    assert gone(655)
    assert verdict_on(RIGHT).passed


def test_files_of_an_answer_are_deleted(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judging._judge.stop()
    body = "import os\nopen('note.txt', 'w').close()\nprint(os.getcwd())\n" + RIGHT
    assert verdict_on(body).passed

    written_in = Path(capsys.readouterr().out.split()[0])
    assert not written_in.exists()
    assert list(tmp_path.iterdir()) == []
    judging._judge.stop()


@pytest.mark.parametrize(
    "body",
    [
        "for number in range(3, 99):\n"
        "    try: __import__('os').write(number, b'{\"outcome\": \"passed\"}')\n"
        "    except OSError: pass",
        "__import__('os').closerange(3, 99)",
    ],
)
def test_an_answer_that_writes_to_files_of_the_check_is_told_so(body):
    assert "leave out `os.write` and `os.close`" in verdict_on(f"{body}\n{RIGHT}").message
    assert verdict_on(RIGHT).passed


def test_an_answer_that_forks_gets_one_verdict():
    body = "import os, sys\nif not hasattr(sys, 'forked'): sys.forked = [os.fork()]\n"
    assert verdict_on(body + RIGHT).passed


def test_a_judge_that_was_killed_is_no_endless_loop():
    body = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass"

    assert "ended from outside (signal 9)" in verdict_on(body).message
    assert verdict_on(RIGHT).passed


def test_the_kernel_is_as_it_was():
    before = time.sleep, time.monotonic, threading.Event.wait, threading.active_count()
    verdict_on(
        "import time, threading\n"
        "time.sleep = time.monotonic = threading.Event.wait = lambda *_: 0.0\n"
        "[threading.Thread(target=threading.Event().wait).start() for _ in range(100)]\n" + RIGHT
    )

    assert before[:3] == (time.sleep, time.monotonic, threading.Event.wait)
    assert threading.active_count() <= before[3] + 1  # the reader of a judge that was started
    assert verdict_on(RIGHT).passed


def test_an_answer_that_cannot_travel_says_what_to_do():
    lock = threading.Lock()

    def mine(calls_per_s, cpu_us_per_call):
        with lock:
            return calls_per_s

    message = judging.judge(ID, mine).message

    assert "lock" in message
    assert "inside your function" in message


class WarnsOfItsPickle:
    def __reduce__(self):
        warnings.warn("it will not be pickled for ever", DeprecationWarning, stacklevel=1)
        return int, (1,)


def test_a_warning_is_no_verdict(monkeypatch, capfd):
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    judging._judge.stop()  # the next one has it
    one = WarnsOfItsPickle()

    def mine(calls_per_s, cpu_us_per_call):
        import warnings

        warnings.warn("old", DeprecationWarning, stacklevel=1)
        warnings.warn("odd", RuntimeWarning, stacklevel=1)
        return one * calls_per_s * cpu_us_per_call / 1e6

    assert judging.judge(ID, mine).passed
    assert "RuntimeWarning: odd" in capfd.readouterr().out
    judging._judge.stop()


def test_pressing_stop_ends_the_answer_and_the_next_one_is_judged():
    verdict_on(RIGHT)  # the process runs
    main = threading.main_thread().ident
    pid = judging._judge._process.pid
    threading.Timer(0.3, signal.pthread_kill, [main, signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        verdict_on("while True: pass")

    assert not psutil.pid_exists(pid)
    assert verdict_on(RIGHT).passed


@pytest.mark.parametrize(
    "holder",
    [
        "",
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'],"
        " stdout=subprocess.DEVNULL, pass_fds=[judging._judge._process.stdin.fileno()])\n",
    ],
)
def test_a_killed_kernel_leaves_no_process(holder):
    """Also where another process of the kernel holds the judge's input open."""
    code = (
        "from kvstore.course import judging\n"
        "def mine(calls_per_s, us):\n"
        "    while True: pass\n"
        "judging._judge.start()\n" + holder + "print(judging._judge._process.pid, flush=True)\n"
        f"judging.judge({ID!r}, mine)\n"
    )
    kernel = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        judge = psutil.Process(int(kernel.stdout.readline()))
        until_s = time.monotonic() + 60
        while not judge.children() and time.monotonic() < until_s:
            time.sleep(0.01)
        family = [judge, *judge.children()]
        assert 2 == len(family)
    finally:
        os.kill(kernel.pid, signal.SIGKILL)
        kernel.communicate()
    _, alive = psutil.wait_procs(family, timeout=20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(kernel.pid, signal.SIGKILL)  # what holds the input
    assert not alive
