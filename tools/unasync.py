"""Write the threads form of each module whose name ends in `_aio`, as httpcore does it.

    python tools/unasync.py

Only modules that name another one in `FORMS` have such a form: what the two stacks share is written
once, on asyncio.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

SERVER: Final = Path(__file__).resolve().parent.parent / "kvstore" / "server"
FORMS: Final = {"unary_aio.py": "unary.py"}
"""The module that is written by hand, and the one that is made of it."""

CHANGES: Final = (
    (r"\basync (?=def|for|with)", ""),
    (r"\bawait ", ""),
    (r"\bASYNC_LOCKS\b", "LOCKS"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\bwork_async\b", "work"),
)


def threads_form(source: str, name: str) -> str:
    """Return the text of the module for threads."""
    for pattern, replacement in CHANGES:
        source = re.sub(pattern, replacement, source)
    return f"# Made of {name} by tools/unasync.py: change that one.\n\n{source}"


if __name__ == "__main__":
    for name, made in FORMS.items():
        (SERVER / made).write_text(threads_form((SERVER / name).read_text("utf-8"), name), "utf-8")
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", SERVER / made], check=True)
