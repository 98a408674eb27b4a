"""sharded.py: several servers in one block, each with ports, identities and keys of its own."""

import socket

import psutil
import pytest
from running import told_by

from kvstore.server import ServerDidNotStart, process, serving_sharded
from kvstore.server.process import serving_each


@pytest.mark.slow
def test_each_server_is_its_own_and_all_end_with_the_block():
    with serving_sharded(2, use_asyncio=True, read_delay_s=0.003) as both:
        told = [told_by(address) for address in both.address.split(",")]

        assert both.identity.split(",") == [each.identity for each in told]
        assert list(both.pids) == [each.process_id for each in told]
        assert len({*both.pids}) == len({*both.address.split(",")}) == 2
        assert both.settings.read_delay_s == 0.003
        assert both.alive()
        psutil.Process(both.pids[1]).kill()
        both.servers[1].child.ended(within_s=5)
        assert not both.alive()
    assert not any(psutil.pid_exists(pid) for pid in both.pids)


@pytest.mark.slow
def test_when_one_cannot_start_none_is_left():
    """The second asks for a port that another program has; the others are coming up meanwhile."""
    before = {child.pid for child in psutil.Process().children()}
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = {"port": other.getsockname()[1]}

        with pytest.raises(ServerDidNotStart, match="cannot be used"), serving_each([{}, taken]):
            pass

    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.parametrize(
    ("says", "processes", "settings"),
    [
        ("processes must be from 1 to 64, got 0", 0, {}),
        ("processes must be from 1 to 64, got 65", 65, {}),
        ("processes must be a whole number, got 1.5", 1.5, {}),
        ("processes must be a whole number, got True", True, {}),
        ("2 servers cannot share port 4321", 2, {"port": 4321}),
        ("serving.. knows no setting delay", 2, {"delay": 1}),
    ],
)
def test_what_makes_no_sense_starts_no_process(says, processes, settings, monkeypatch):
    monkeypatch.delattr(process, "child")

    with pytest.raises(ValueError, match=says), serving_sharded(processes, **settings):
        pass
