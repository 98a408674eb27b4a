"""`python -m benchmarks [names] [--quick]`: run benchmarks and print a table for each."""

import argparse
import importlib
import math
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from benchmarks.compare import report
from benchmarks.results import FOLDER, NotResults, Results, new_path
from kvstore.cpu_idle import keeping_awake
from kvstore.measure import cores, describe_host

NAMES = (
    "table",
    "ladder",
    "performance",
    "published",
    "batches",
    "processes",
    "recording",
    "overhead",
    "settings",
    "burst",
    "unlimited",
    "etcd",
    "lessons",
)
DEFAULT, ALL = "table", "all"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks; return 0, 1 for a wrong file, or 130 after Ctrl-C."""
    options = _options(arguments)
    pd.set_option(
        "display.width", 250, "display.max_columns", 30, "display.max_colwidth", 70,
        "display.max_rows", 500,
    )  # fmt: skip
    try:
        with keeping_awake(cores(), longest_s=math.inf) if options.awake else nullcontext():
            if options.compare:
                return _compare(options.compare, options.quick, options.save or new_path())
            _print_host()
            for name in NAMES if ALL in options.names else options.names or (DEFAULT,):
                more = [options.save or new_path()] if name == DEFAULT else []
                _one(name, options.quick, *more)
    except NotResults as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the tables above are complete")
        return 130
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parse = argparse.ArgumentParser(prog="course.py bench", description=__doc__)
    parse.add_argument(
        "names", nargs="*", help=f"some of: {', '.join(NAMES)}, {ALL} (default: {DEFAULT})"
    )
    parse.add_argument("--quick", action="store_true", help="short runs, to check that it works")
    parse.add_argument(
        "--compare", nargs="+", type=Path, metavar="FILE",
        help=f"compare a saved {DEFAULT} with a second one, or with one measured now",
    )  # fmt: skip
    parse.add_argument(
        "--save", type=Path, default=None, metavar="FILE",
        help=f"the file for the rounds of the {DEFAULT}"
        f" (default: a new file in benchmarks/{FOLDER.name}/)",
    )  # fmt: skip
    parse.add_argument(
        "--awake", action="store_true",
        help="keep every core awake: on a virtual machine an idle core needs time to wake up, which"
        " would be measured too",
    )  # fmt: skip
    options = parse.parse_args(arguments)
    if unknown := set(options.names) - {*NAMES, ALL}:
        parse.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.compare and (options.names or len(options.compare) > 2):
        parse.error("--compare takes one file or two, and no names")
    return options


def _compare(files: Sequence[Path], quick: bool, path: Path) -> int:
    """Compare a file with a second file or with a new measurement; check the file first."""
    old = Results.load(files[0])
    if len(files) == 1:
        _print_host()
        _one(DEFAULT, quick, path)
    else:
        path = files[1]
    print(report(old, Results.load(path)))
    return 0


def _print_host() -> None:
    for name, value in describe_host().items():
        print(f"{name:>12}: {value}")


def _one(name: str, quick: bool, *more: object) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    print(f"\n{name}: {(module.__doc__ or '').strip()}\n", flush=True)
    rows = []
    try:
        # The default has progress of its own, and its rows come all at once.
        for row in tqdm(
            module.measure(quick, *more), desc=name, unit="row", disable=name == DEFAULT
        ):
            rows.append(row)
            if name != DEFAULT:
                tqdm.write(f"  {row}")
    finally:
        if rows:
            print(f"\n{pd.DataFrame(rows).to_string(index=False, na_rep='-')}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
