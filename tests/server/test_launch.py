"""launch.py: servers in their own processes, one or several with the keys shared out."""

import itertools
import signal
import socket

import psutil
import pytest
from running import status_of

from kvstore.server import (
    ServerDidNotStart,
    launch,
    serving,
    serving_replicas,
)
from kvstore.subprocesses import child


@pytest.mark.slow
def test_the_server_ends_with_its_block_and_with_an_error_in_it():
    with serving() as server:
        inside = server.alive()

    assert (True, False) == (inside, server.alive())
    assert not psutil.pid_exists(server.pid)

    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error, match="in the block"), serving() as server:
            raise error("in the block")
        assert not psutil.pid_exists(server.pid)


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
def test_each_server_is_its_own_and_all_end_with_the_block():
    with serving_replicas([{"use_asyncio": True, "read_delay_s": 0.003}] * 2) as both:
        report = [status_of(address) for address in both.address.split(",")]

        assert both.identity.split(",") == [each.identity for each in report]
        assert list(both.pids) == [each.process_id for each in report]
        assert len({*both.pids}) == len({*both.address.split(",")}) == 2
        assert both.settings.read_delay_s == 0.003
        assert both.alive()
        psutil.Process(both.pids[1]).kill()
        both.servers[1].child.ended(within_s=5)
        assert not both.alive()
    assert not any(psutil.pid_exists(pid) for pid in both.pids)


@pytest.mark.slow
def test_an_interrupt_while_a_server_starts_leaves_none(monkeypatch):
    """It comes when the second one runs, and before it is known that the block has to end it."""
    starts = itertools.count(1)

    class Interrupted:
        def __init__(self, *command, **how):
            self.running = child(*command, **how)

        def __enter__(self):
            process = self.running.__enter__()
            if next(starts) == 2:
                signal.raise_signal(signal.SIGINT)
            return process

        def __exit__(self, *error):
            return self.running.__exit__(*error)

    before = psutil.Process().children()
    monkeypatch.setattr(launch, "child", Interrupted)
    # The error stays, as in a notebook: else what it holds would be collected, and so stopped.
    with pytest.raises(KeyboardInterrupt) as kept, serving_replicas([{}] * 4):
        pytest.fail("the block must not begin")

    assert before == psutil.Process().children(), kept


def test_what_makes_no_sense_starts_no_process(monkeypatch):
    monkeypatch.delattr(launch, "child", raising=False)

    with (
        pytest.raises(ValueError, match=r"serving.. knows no setting colour, delay; it"),
        serving_replicas([{}, {"delay": 1, "colour": "blue"}]),
    ):
        pass
