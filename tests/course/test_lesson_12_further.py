"""Further lesson 12 on generators, servers and cores: its bound and its table."""

import dataclasses

import pytest
from made_runs import run_of

from kvstore.course.lessons.lesson_12 import questions as facts
from kvstore.course.questions import registered
from kvstore.measure import Cpu


def made(calls, cpu_s=(0.001, 0.002), answered=None):
    """Return a run of one second: so many calls, with these CPU seconds of client and server."""
    run = run_of([(n / calls, (n + 1) / calls, "retrieve") for n in range(calls)], in_flight=1)
    client, server = (Cpu(calls * each, 0.0, calls * each / 2) for each in cpu_s)
    counted = {"retrieve/OK": calls if answered is None else answered}
    return dataclasses.replace(
        run, client_cpu=client, server_cpu=server, server={**run.server, "operations": counted}
    )


def test_the_bound_comes_from_the_run_with_one_of_each(monkeypatch):
    monkeypatch.setattr(facts, "cores", lambda: 2)
    alone = made(100)

    # 2 cores / 3 ms = 667; one server at its serial part of 1 ms: 1,000
    assert facts.bound_of_processes(alone, (2, 2)).value == pytest.approx(2 / 0.003)
    assert facts.bound_of_processes(alone, (2, 2)).binds == "cores"
    monkeypatch.setattr(facts, "cores", lambda: 64)
    assert facts.bound_of_processes(alone, (1, 1)).value == pytest.approx(1 / 0.001)
    assert registered("12.two_and_two").model(alone, alone).value == pytest.approx(2_000)
