"""channel.py: the work ends as it would here, and Ctrl-C does not interrupt it."""

import _thread
import subprocess
import sys
import threading

import pytest

from kvstore.client.channel import uninterrupted


def test_the_work_gives_what_it_returns_and_raises_what_it_raises():
    assert "uninterruptible" == uninterrupted(lambda: threading.current_thread().name)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_ctrl_c_ends_the_waiting_and_not_the_work():
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        _thread.interrupt_main()
        go_on.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


RUN = """
import sys
from kvstore.client import load, strategies, workload

load.run(strategies.blocking, "{address}", workload.reads(value_bytes_mean=9), calls=5)
print("pandas" in sys.modules)
"""


@pytest.mark.slow
def test_a_load_generator_imports_no_pandas(quick_server):
    """Its modules in Cython lose a Ctrl-C that comes at certain lines of their import."""
    command = [sys.executable, "-c", RUN.format(address=quick_server.address)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert "False\n" == done.stdout, done.stderr
