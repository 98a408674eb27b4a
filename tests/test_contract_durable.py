"""A server that keeps its data on disk: what it answered is there again, whatever ended it."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import pytest
from stacks import calling

from kvstore.server import ServerSettings, serving
from kvstore.server.durable import DurableStore
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

HANG_S = 15.0
DURABLE = {"use_asyncio": True, "read_delay_s": 0.0, "write_delay_s": 0.0, "locking": "per_key"}


@pytest.mark.slow
def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path):
    """Killed with 8 creates in flight: none that was answered OK is missing or different."""
    settings = {**DURABLE, "store": f"sqlite:{tmp_path}", "group_commit": True}
    acknowledged: dict[bytes, bytes] = {}
    enough = threading.Event()

    def create(stub: kvstore_pb2_grpc.KeyValueServiceStub, caller: int) -> None:
        for number in range(1_000_000):
            key, value = b"%d of %d" % (number, caller), b"%d" % (number * caller)
            try:
                stub.Create(pb.CreateRequest(key=key, value=value), timeout=HANG_S)
            except grpc.RpcError:
                return  # killed: this one is unknown
            acknowledged[key] = value
            if len(acknowledged) >= 60:
                enough.set()

    with serving(**settings) as server, calling(server.address) as stub:
        callers = [threading.Thread(target=create, args=(stub, n)) for n in range(8)]
        for caller in callers:
            caller.start()
        seen = enough.wait(2 * HANG_S)
        os.kill(server.pid, signal.SIGKILL)
        for caller in callers:
            caller.join(HANG_S)
    with serving(**settings) as again, calling(again.address) as stub:
        (reply,) = stub.Pipeline(
            iter([pb.PipelineRequest(kinds=b"\2" * len(acknowledged), keys=list(acknowledged))]),
            timeout=HANG_S,
        )

    assert seen
    assert {0} == set(reply.statuses)
    assert list(acknowledged.values()) == list(reply.values)


FILE_LIMIT = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
runpy.run_module("kvstore.server", run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit to a file's size to set")
def test_when_the_disk_is_full_writes_are_refused_by_name_and_what_was_answered_stays(tmp_path):
    arguments = [
        "--write-delay-s=0",
        "--locking=per_key",
        "--group-commit",
        f"--store=sqlite:{tmp_path}",
        "--use-asyncio",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", FILE_LIMIT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        with calling(server.stdout.readline().strip()) as stub:
            codes: dict[bytes, grpc.StatusCode] = {}
            for first in range(0, 120, 10):
                calls = {
                    b"%d" % n: stub.Create.future(
                        pb.CreateRequest(key=b"%d" % n, value=bytes(3000)),
                        wait_for_ready=True,
                        timeout=4 * HANG_S,
                    )
                    for n in range(first, first + 10)
                }
                codes |= {key: call.code() for key, call in calls.items()}
        server.terminate()
        errors = server.communicate(timeout=HANG_S)[1]
    kept = DurableStore(ServerSettings(**DURABLE, store=f"sqlite:{tmp_path}"))
    kept.close()

    assert {grpc.StatusCode.INTERNAL, grpc.StatusCode.OK} == set(codes.values())
    assert {key for key, code in codes.items() if code is grpc.StatusCode.OK} <= set(
        kept.memory._values
    )
    assert 0 == server.returncode
    assert 1 == errors.count("the disk failed: nothing more is written")


PARENT = """
import signal, sys
from contextlib import nullcontext
from tempfile import TemporaryDirectory
from kvstore.server import serving

_, own, kills = sys.argv
with (
    nullcontext(own) if own else TemporaryDirectory() as folder,
    serving(use_asyncio=True, store=f"sqlite:{folder}/data") as server,
):
    if kills:
        server.kill()
    print(folder, flush=True)
    signal.pause()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize(("own", "kills"), [("", ""), ("", "the server too"), ("own", "")])
def test_a_database_outlives_a_kill_in_a_folder_of_ones_own_only(own, kills, tmp_path):
    (tmp_path / "own").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, own and tmp_path / own, kills],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as parent:
        assert parent.stdout is not None
        folder = Path(parent.stdout.readline().strip())
        assert (folder / "data").is_dir()
        parent.kill()
    end_s = time.monotonic() + 2 * HANG_S
    while not own and folder.exists():
        assert time.monotonic() < end_s, "the database is still there after the kill"
        time.sleep(0.05)
    while own:  # until the server has ended as well
        try:
            DurableStore(ServerSettings(**DURABLE, store=f"sqlite:{folder}/data")).close()
            return
        except OSError:
            assert time.monotonic() < end_s
            time.sleep(0.05)
    assert (tmp_path / "own").is_dir()
