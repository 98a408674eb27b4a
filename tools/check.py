"""Check what a commit has to hold: `python3 course.py check [--fix | --generate]`."""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from tools import generated


def steps(fix: bool) -> list[tuple[str, list[str]]]:
    """Return what is checked, in an order in which a later fix spoils no earlier one."""
    lint, layout = ["-m", "ruff", "check"], ["-m", "ruff", "format"]
    return [
        ("notebooks", ["-m", "tools.notebooks", *(["--fix"] if fix else [])]),
        ("lint", [*lint, "--fix"] if fix else lint),
        ("format", layout if fix else [*layout, "--check"]),
        ("types", ["-m", "mypy"]),
        ("generated code", ["-m", "tools.generated"]),
    ]


def main(arguments: Sequence[str]) -> int:
    """Run every step with its output shown; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="course.py check")
    parser.add_argument("--fix", action="store_true", help="repair what a tool can repair")
    parser.add_argument(
        "--generate", action="store_true", help="write kvstore/v1 from proto/; needs the internet"
    )
    options = parser.parse_args(arguments)
    if options.generate:
        return generated.write(generated.ROOT)
    failed = []
    for name, command in steps(options.fix):
        print(f"course.py check: {name}", file=sys.stderr, flush=True)
        if subprocess.call([sys.executable, *command]):
            failed.append(name)
    outcome = f"failed: {', '.join(failed)}" if failed else "all checks passed"
    print(f"course.py check: {outcome}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
