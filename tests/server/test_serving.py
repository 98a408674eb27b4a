"""process.py: `with serving()` gives a server that is ours, and leaves none behind."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import psutil
import pytest
from running import HANG_S, told_by

from kvstore.server import LOCKINGS, ServerDidNotStart, ServerSettings, process, serving
from kvstore.server.__main__ import parser
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc


@pytest.mark.slow
def test_a_server_is_what_it_was_asked_to_be(own_server, stack):
    wanted = {
        "read_delay_s": 0.0,
        "write_delay_s": 0.003,
        "locking": "per_key_held",
        "max_concurrent_rpcs": 1000,
        "station_times": True,
    }
    server = own_server(**wanted)
    told = told_by(server.address)

    assert ServerSettings(**wanted, use_asyncio=stack == "asyncio") == server.settings
    assert server.settings == ServerSettings(**json.loads(told.settings_json))
    assert (server.identity, server.pid, socket.gethostname()) == (
        told.identity,
        told.process_id,
        told.host_name,
    )


@pytest.mark.slow
def test_each_server_has_an_identity_process_and_port_of_its_own():
    with serving() as one, serving() as other:
        told = told_by(one.address)

        assert one.identity == told.identity != other.identity
        assert len({one.address, other.address}) == 2
        assert len({one.pid, other.pid, os.getpid()}) == 3


@pytest.mark.slow
def test_the_server_ends_with_its_block():
    with serving() as server:
        inside = server.alive()

    assert (True, False) == (inside, server.alive())
    assert not psutil.pid_exists(server.pid)


@pytest.mark.slow
def test_an_error_in_the_block_leaves_no_server_behind():
    with pytest.raises(RuntimeError, match="in the block"), serving() as server:
        raise RuntimeError("in the block")

    assert not psutil.pid_exists(server.pid)


@pytest.mark.slow
def test_a_server_that_is_busy_for_long_ends_with_its_block_too():
    with serving(write_delay_s=59) as server, grpc.insecure_channel(server.address) as channel:
        stub = kvstore_pb2_grpc.KeyValueServiceStub(channel)
        call = stub.Create.future(pb.CreateRequest(key=b"k"), wait_for_ready=True)
        told_by(server.address)  # it listens, and the call is on its way
    assert not psutil.pid_exists(server.pid)
    assert call.exception(HANG_S)


@pytest.mark.parametrize(
    ("named", "settings"),
    [
        ("locking must be one of", {"locking": "row"}),
        ("read_delay_s must be", {"read_delay_s": -1}),
        ("serving.. knows no setting delay; it knows read_delay_s, ", {"delay": 1}),
        ("knows no setting colour, delay;", {"delay": 1, "colour": "blue"}),
    ],
)
def test_settings_that_make_no_sense_start_no_process(named, settings, monkeypatch):
    monkeypatch.delattr(process, "child")

    with pytest.raises(ValueError, match=named), serving(**settings):
        pass


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why_in_its_own_words():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(ServerDidNotStart) as failed, serving(port=port):
            pass

    assert str(failed.value).startswith("the server ended before it listened (exit status 1): ")
    assert f"error: port {port} of 127.0.0.1 cannot be used" in str(failed.value)


@pytest.mark.slow
def test_a_server_that_says_nothing_is_ended(monkeypatch):
    monkeypatch.setattr(process, "START_S", 0.001)

    with pytest.raises(ServerDidNotStart, match="no address within"), serving():
        pass


@pytest.mark.parametrize("locking", LOCKINGS)
def test_the_command_line_says_all_that_the_settings_say(locking):
    """What `serving` asks for is what the command understands."""
    settings = ServerSettings(
        read_delay_s=1e-05, write_delay_s=0.1, locking=locking, threads=3, port=4321,
        max_concurrent_rpcs=9, max_streams=8, refuse_streams=False, group_commit=True,
        station_times=True, back_end="127.0.0.1:9",
        metadata_work=2, default_limits=True, settle_garbage=False, writing="read_then_write",
    )  # fmt: skip
    understood = vars(parser().parse_args(process._arguments(settings)))
    understood["settle_garbage"] = not understood.pop("leave_garbage")

    assert settings.as_dict() == {
        name: understood["asyncio" if name == "use_asyncio" else name]
        for name in settings.as_dict()
    }


@pytest.mark.slow
def test_a_server_starts_without_what_only_tables_need():
    """Lessons start dozens of servers: pandas was most of the processor time of a start."""
    told = subprocess.run(
        [sys.executable, "-c", "import kvstore.server.__main__, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(process.__file__).parents[2])},
    )

    assert not {"pandas", "matplotlib", "IPython"} & set(told.stdout.split())
