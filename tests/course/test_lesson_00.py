"""Lesson 00: its published benchmarks, and the models of its questions."""

import dataclasses
import json
import re

from made_runs import staircase

from kvstore.course.lessons.lesson_00 import questions
from kvstore.measure import Cpu


def test_the_bound_of_the_processor_takes_the_part_of_the_loop():
    """gRPC's own threads work beside the loop: their time is no demand on the interpreter."""
    run = dataclasses.replace(
        staircase(1000, in_flight=20),
        client_cpu=Cpu(0.10, 0.02, loop_s=0.08),
        server_cpu=Cpu(0.30, 0.10, loop_s=0.30),
    )

    assert 1000 / 0.40 < questions.most_of(run).value <= 1000 / 0.26 + 1e-6


def test_the_part_of_the_contract_that_is_shown_is_in_the_contract(repo_root):
    contract = (repo_root / "proto/kvstore/v1/kvstore.proto").read_text("utf-8")
    cells = json.loads((repo_root / "notebooks/00_start_here.ipynb").read_text("utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells)
    (shown,) = re.findall(r"```proto\n(.*?)```", prose, re.S)

    assert [] == [line for line in shown.splitlines() if line.strip() not in contract]
