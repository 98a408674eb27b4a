"""Clients that take turns against one server, and the tables of what they did.

Rounds are short, and the order of the clients changes. Ratios are taken within a round, because a
machine that slows down slows all of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kvstore.measure import Run

ROOT: Final = Path(__file__).resolve().parents[1]


class Turn(NamedTuple):
    """The figures of one turn of one client."""

    per_s: float
    """Operations per second."""
    cpu_s: float
    """CPU seconds of the client for each operation; NaN if they are not measured."""


Clients = dict[str, Callable[[], Turn]]
"""Functions that take one turn, by the name of the client."""
Rounds = dict[str, list[Turn]]
"""The turns of each client, round by round."""


def turn_of(run: Run) -> Turn:
    """Return the turn of a run. Raises `RuntimeError` if an operation was not OK."""
    if set(run.outcomes()) != {"OK"}:  # a wrong value would have ended the run
        raise RuntimeError(f"every operation should be answered OK, got {run.outcomes()}")
    return Turn(run.throughput_per_s, run.client_cpu.total_s / run.operations_ok)


def in_turns(turns: Clients, rounds: int) -> Rounds:
    """Let each client take a turn in every round, in changing order; the first round warms up."""
    names = list(turns)
    taken: Rounds = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            turn = turns[name]()
            if number:
                taken[name].append(turn)
    return taken


def rows(rounds: Rounds) -> list[dict[str, str]]:
    """Return one row of text for each client, beside the first one within each round."""
    first = next(iter(rounds.values()))
    table = []
    for name, turns in rounds.items():
        rates = [turn.per_s for turn in turns]
        of_first = [turn.per_s / one.per_s for turn, one in zip(turns, first, strict=True)]
        cpu_us = 1e6 * float(np.median([turn.cpu_s for turn in turns]))
        table.append(
            {
                "client": name,
                "operations/s": four_digits(float(np.median(rates))),
                "spread": f"{four_digits(min(rates))} to {four_digits(max(rates))}",
                "of the first": f"{np.median(of_first):.2f}",
                "CPU us of the client": "?" if math.isnan(cpu_us) else f"{cpu_us:.3g}",
            }
        )
    return table


def markdown(table: Sequence[Mapping[str, Any]], texts: int = 1) -> list[str]:
    """Return rows as lines of Markdown: the first `texts` columns to the left, numbers right."""
    names = list(table[0])
    sides = ["---"] * texts + ["---:"] * (len(names) - texts)
    cells = [names, sides, *([str(row[name]) for name in names] for row in table)]
    return [f"| {' | '.join(each)} |" for each in cells]


def write(name: str, quick: bool, lines: Sequence[str]) -> Path:
    """Write a page of docs/; that of a quick run into `executed/`, beside the real one."""
    path = ROOT / ("executed" if quick else "docs") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")
    return path


def machine(host: Mapping[str, Any]) -> str:
    """Return when and where: the date, the processor and its cores, and the versions."""
    versions = ", ".join(f"{name} {host[name]}" for name in ("python", "grpcio", "uvloop"))
    return (
        f"Measured on {date.today().isoformat()}: {host['processor']}, {host['cores']} cores,"
        f" {versions}."
    )


def four_digits(value: float) -> str:
    """A number with four significant digits and no power of ten."""
    return f"{float(f'{value:.4g}'):,.10g}"
