"""Lesson 00: the part of the contract that it shows."""

import json
import re


def test_the_part_of_the_contract_that_is_shown_is_in_the_contract(repo_root):
    contract = (repo_root / "proto/kvstore/v1/kvstore.proto").read_text("utf-8")
    cells = json.loads((repo_root / "notebooks/00_start_here.ipynb").read_text("utf-8"))["cells"]
    prose = "\n".join("".join(cell["source"]) for cell in cells)
    (shown,) = re.findall(r"```proto\n(.*?)```", prose, re.S)

    assert [] == [line for line in shown.splitlines() if line.strip() not in contract]
