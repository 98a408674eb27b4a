"""Where programs of other makes are, how to get them, and an end to their time."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvstore.course import rendering

HOW_TO_INSTALL: Final = {
    "h2load": "Debian, Ubuntu: `sudo apt install nghttp2-client`; macOS: `brew install nghttp2`",
    "ghz": "with Go: `go install github.com/bojand/ghz/cmd/ghz@v0.121.0`, or `.ci/run`",
}

OURS: Final = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    / "rpc-throughput-course"
    / "bin"
)
"""Where `.ci/run` puts what it builds."""

SAID: Final = 2_000
"""Characters of a failed program's last words that are shown."""


class NotInstalled(RuntimeError):
    """The program is not on this machine."""


class PeerFailed(RuntimeError):
    """The program ended with an error, took too long, or said what nobody understands."""


def path_of(name: str) -> str | None:
    """The program's path: on PATH, where `.ci/run` puts it, or where Go does."""
    places = [os.environ.get("PATH", ""), str(OURS), str(Path.home() / "go" / "bin")]
    return shutil.which(name, path=os.pathsep.join(places))


def found(name: str) -> bool:
    """Whether the program is here; where it is not, the page says how to get it."""
    if path_of(name) is not None:
        return True
    text = f"{_missing(name)} The lesson goes on without it."
    rendering.show({"text/plain": text, "text/html": rendering.inline(text)})
    return False


def run(name: str, arguments: Sequence[str], timeout_s: float) -> str:
    """What the program prints. Raises `NotInstalled` and `PeerFailed`; it never outlives us."""
    path = path_of(name)
    if path is None:
        raise NotInstalled(_missing(name))
    try:
        ended = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise PeerFailed(
            f"{name} did not end within {timeout_s:g} s and was stopped: ask for fewer requests"
        ) from None
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()[-SAID:]
        raise PeerFailed(f"{name} ended with status {ended.returncode}: {said or 'not a word'}")
    return ended.stdout


def _missing(name: str) -> str:
    return f"{name} is not installed here. {HOW_TO_INSTALL[name]}."
