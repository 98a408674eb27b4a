"""server/__main__.py: memory is returned after growth, when the server is idle, and not before."""

import gc
import weakref
from types import SimpleNamespace

from kvstore.server import __main__ as command
from kvstore.server.__main__ import IdleMemory


def test_memory_is_returned_once_the_server_is_idle(monkeypatch):
    times, resident = iter([0.0, 1.0, 2.0, 3.0]), iter([0, 10**9, 10**9 + 1, 10**9 + 2])
    busy_s = iter([0.0, 0.9, 0.9, 0.9])
    monkeypatch.setattr(command.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(command.time, "process_time", lambda: next(busy_s))
    returned = []

    class Process:
        def memory_info(self):
            return SimpleNamespace(rss=next(resident))

    monkeypatch.setattr(command.psutil, "Process", Process)
    monkeypatch.setattr(
        command, "_library", lambda: type("C", (), {"malloc_trim": returned.append})
    )
    memory = IdleMemory()
    broken_off = type("Call", (), {})()
    broken_off.itself, gone = broken_off, weakref.ref(broken_off)
    gc.disable()
    try:
        del broken_off

        assert [False, True, False] == [memory.look() for _ in range(3)]  # busy, idle, no growth
    finally:
        gc.enable()
    assert 1 == len(returned)
    assert gone() is None  # garbage in a circle is collected first


def test_a_system_without_the_function_is_left_alone(monkeypatch):
    monkeypatch.setattr(command, "_library", lambda: None)

    assert not IdleMemory().look()
