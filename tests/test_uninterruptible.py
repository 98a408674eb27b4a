"""channel.py: the work ends as it would here, and Ctrl-C does not interrupt it."""

import subprocess
import sys
import threading

import pytest

from kvstore.client import load, strategies, workload
from kvstore.client.channel import uninterrupted
from kvstore.client.client import Client
from kvstore.subprocesses import interrupt_main
from kvstore.v1 import server_status_pb2_grpc


def test_the_work_gives_what_it_returns_and_raises_what_it_raises():
    assert "uninterruptible" == uninterrupted(lambda: threading.current_thread().name)
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_ctrl_c_ends_the_waiting_and_not_the_work():
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        interrupt_main()
        go_on.wait(10)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_before_a_run_no_call_is_made_where_ctrl_c_would_tear_it(quick_server, monkeypatch):
    """Status and first keys: what the main thread began would be waited for without end."""
    made_in = []
    run_, stub = Client.run, server_status_pb2_grpc.ServerStatusServiceStub

    def ran(client, *what, **how):
        made_in.append(threading.current_thread())
        return run_(client, *what, **how)

    class Stub:
        def __init__(self, channel):
            self._stub = stub(channel)

        def GetServerStatus(self, *what, **how):
            made_in.append(threading.current_thread())
            return self._stub.GetServerStatus(*what, **how)

    monkeypatch.setattr(Client, "run", ran)
    monkeypatch.setattr(server_status_pb2_grpc, "ServerStatusServiceStub", Stub)
    keys = workload.reads(keys=3, value_bytes_mean=9)
    load.run(strategies.blocking, quick_server, keys, calls=1)

    assert len(made_in) >= 2 + 2  # the keys and the run, and the status before and after
    assert threading.main_thread() not in made_in


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
