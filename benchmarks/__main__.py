"""`python -m benchmarks [names] [--quick]`: run the benchmarks and print one table for each."""

import argparse
import importlib
import time
from collections.abc import Sequence

import pandas as pd

from kvstore.measure import describe_host

NAMES = (
    "published",
    "strategies",
    "batches",
    "recording",
    "burst",
    "unlimited",
    "orphans",
    "lessons",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that were named, or all of them."""
    parse = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parse.add_argument("names", nargs="*", help=f"some of: {', '.join(NAMES)} (default: all)")
    parse.add_argument("--quick", action="store_true", help="short runs, to see that it works")
    options = parse.parse_args(arguments)
    if unknown := set(options.names) - set(NAMES):
        parse.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    pd.set_option("display.width", 160, "display.max_columns", 20, "display.max_colwidth", 70)
    for name, value in describe_host().items():
        print(f"{name:>12}: {value}")
    try:
        for name in options.names or NAMES:
            _one(name, options.quick)
    except KeyboardInterrupt:
        print("\nstopped; the tables above are whole")
        return 130
    return 0


def _one(name: str, quick: bool) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    print(f"\n{name}: {(module.__doc__ or '').strip()}\n", flush=True)
    started_s = time.perf_counter()
    rows = []
    for row in module.measure(quick):
        rows.append(row)
        print(f"  {time.perf_counter() - started_s:6.1f} s  {row}", flush=True)
    print(f"\n{pd.DataFrame(rows).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
