"""`python -m benchmarks [names] [--quick]`: run benchmarks and print a table for each."""

import argparse
import importlib
from collections.abc import Sequence

import pandas as pd
from tqdm import tqdm

from kvstore.measure import describe_host

NAMES = ("overhead", "ladder", "performance", "coverage")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks; return 0, or 130 after Ctrl-C."""
    parse = argparse.ArgumentParser(prog="course.py bench", description=__doc__)
    parse.add_argument(
        "names", nargs="*", help=f"some of: {', '.join(NAMES)} (default: {NAMES[0]})"
    )
    parse.add_argument("--quick", action="store_true", help="short runs, to check that it works")
    options = parse.parse_args(arguments)
    if unknown := set(options.names) - {*NAMES}:
        parse.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    pd.set_option("display.width", 250, "display.max_columns", 30, "display.max_colwidth", 70)
    try:
        for name, value in describe_host().items():
            print(f"{name:>12}: {value}")
        for name in options.names or NAMES[:1]:
            _one(name, options.quick)
    except KeyboardInterrupt:
        print("\nstopped; the tables above are complete")
        return 130
    return 0


def _one(name: str, quick: bool) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    print(f"\n{name}: {(module.__doc__ or '').strip()}\n", flush=True)
    rows = []
    try:
        for row in tqdm(module.measure(quick), desc=name, unit="row"):
            rows.append(row)
            tqdm.write(f"  {row}")
    finally:
        if rows:
            print(f"\n{pd.DataFrame(rows).to_string(index=False, na_rep='-')}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
