"""Look for known advisories of what constraints.txt names, with pip-audit: `.ci/run` does it.

The exit status is 0 without an advisory, 1 with one, and 3 if the source of advisories cannot be
reached. pip-audit itself says "no known vulnerabilities" where an index does not have them. So a
version with a well-known advisory is looked up first.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
KNOWN: Final = "jinja2==3.1.4"
"""A version with a well-known advisory, of December 2024; constraints.txt has a later one."""
UNREACHED: Final = 3
PATIENCE_S: Final = 300.0
COMMAND: Final = (
    *(sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip"),
    *("--progress-spinner=off", "--format=json"),
)


def main(arguments: Sequence[str]) -> int:
    """Audit constraints.txt, and print each advisory; the arguments go to pip-audit."""
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder) / "known.txt"
        canary.write_text(f"{KNOWN}\n", "utf-8")
        if not advisories(_audited(canary, arguments)):
            print(f"the source of advisories cannot be reached: it knows none of {KNOWN}")
            return UNREACHED
    report = _audited(ROOT / "constraints.txt", arguments)
    if report is None:
        print("the source of advisories ended before it had answered for every package")
        return UNREACHED
    found = advisories(report)
    print("\n".join(found) or f"no known advisory for {len(report['dependencies'])} packages")
    return 1 if found else 0


def advisories(report: dict[str, Any] | None) -> list[str]:
    """Return a line for each advisory in a report of pip-audit."""
    return [
        f"{package['name']} {package['version']}: {each['id']}, repaired in"
        f" {', '.join(each['fix_versions']) or 'no version'}"
        for package in (report or {"dependencies": []})["dependencies"]
        for each in package.get("vulns", ())  # a package that was skipped has none
    ]


def _audited(requirements: Path, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the report of pip-audit; None if it wrote none."""
    command = [*COMMAND, "--requirement", str(requirements), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        report: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return report


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
