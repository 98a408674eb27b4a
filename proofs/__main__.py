"""`python -m proofs NAME... [--short]`: run provers, with progress and a summary line for each."""

import argparse
import importlib
import sys
import time
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from proofs.case import Case, Figure, Skipped

NAMES = (
    "faults",
    "linearizable",
    "malformed",
    "half_open",
    "orphans",
    "clients",
    "conformance",
    "files",
    "security",
)
ALL = "all"
SHOWN = 20
"""Number of wrong cases that are shown in full."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named provers; return 0, 1 if a case was not as expected, or 130 after Ctrl-C."""
    parse = argparse.ArgumentParser(prog="course.py prove", description=__doc__)
    parse.add_argument("names", nargs="+", metavar="NAME", help=f"{', '.join(NAMES)}, or {ALL}")
    parse.add_argument("--short", action="store_true", help="the form that the tests run")
    parse.add_argument(
        "--times", type=int, default=1, metavar="N", help="repeat each prover N times (default: 1)"
    )
    options = parse.parse_args(arguments)
    if unknown := set(options.names) - {*NAMES, ALL}:
        parse.error(
            f"no prover is called {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}"
        )
    names = NAMES if ALL in options.names else tuple(dict.fromkeys(options.names))
    try:
        held = [run(name, options.short) for name in names for _ in range(options.times)]
    except KeyboardInterrupt:
        print("\nstopped; the lines above are complete", file=sys.stderr)
        return 130
    return 0 if all(held) else 1


def run(name: str, short: bool) -> bool:
    """Run one prover; print what was not as expected and one summary line; return whether all was.

    A prover without a single case has proved nothing, so it does not hold either.
    """
    cases, wrong = 0, list[Case]()
    figures, skipped = dict[str, object](), list[str]()
    began_s = time.perf_counter()
    try:
        with tqdm(desc=name, unit="case", disable=None) as progress:
            for found in prover(name, short):
                if isinstance(found, Figure):
                    figures[found.name] = found.value
                    continue
                if isinstance(found, Skipped):
                    skipped.append(found.why)
                    continue
                cases += 1
                progress.update()
                if found.wrong:
                    wrong.append(found)
                    if len(wrong) <= SHOWN:
                        tqdm.write(f"  {name}: {found.name}: {found.wrong}")
    finally:
        more = "".join(f"; {key}: {_text(value)}" for key, value in figures.items())
        more += "".join(f"; skipped: {why}" for why in skipped)
        print(
            f"{name}: {cases:,} cases, {cases - len(wrong):,} as expected, {len(wrong):,} not;"
            f" {time.perf_counter() - began_s:.0f} s{more}",
            flush=True,
        )
    return not wrong and cases > 0


def prover(name: str, short: bool) -> Iterator[Case | Figure | Skipped]:
    """Return the cases of the prover with this name."""
    found: Iterator[Case | Figure | Skipped] = importlib.import_module(f"proofs.{name}").prove(
        short
    )
    return found


def _text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
