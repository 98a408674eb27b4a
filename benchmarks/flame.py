"""Flame graphs of our client, drawn by py-spy if it is installed."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from kvstore import transport as transports
from kvstore.client.options import RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import Workload
from kvstore.server import Server

SAMPLES_PER_S: Final = 200
RUN_S: Final = 5.0
END_S: Final = 60.0
"""Seconds in addition to the run after which py-spy is stopped."""


def installed() -> bool:
    """Return whether py-spy is on the PATH."""
    return shutil.which("py-spy") is not None


def file_name(*words: str) -> str:
    """Return a file name of lower-case letters and digits."""
    return "_".join(re.findall(r"[a-z0-9]+", " ".join(words).lower())) + ".svg"


def draw(
    server: Server, strategy: Strategy, work: Workload, transport: str, in_flight: int,
    own: dict[str, Any], picture: Path,
) -> bool:  # fmt: skip
    """Draw where a client process spends its CPU time, its start included.

    Return whether there is a picture: py-spy needs the right to read the memory of the process.
    """
    settings = {"in_flight": in_flight, "duration_s": RUN_S, **own}
    options = RunOptions.of(strategy, None, settings)
    with tempfile.TemporaryDirectory() as folder:
        client = [
            sys.executable, "-m", "kvstore.client", server.address,
            f"--strategy={strategy.__name__}", f"--options={options.to_json()}",
            f"--workload={json.dumps(work.as_dict())}", f"--save={folder}/run.npz",
        ]  # fmt: skip
        drawn = subprocess.run(
            [
                "py-spy", "record", "--format=flamegraph", f"--output={picture}",
                f"--rate={SAMPLES_PER_S}", "--", *client,
            ],
            env=transports.environment(transport), stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=RUN_S + END_S,
        )  # fmt: skip
    if drawn.returncode or not picture.exists():
        return False
    # The title is the command, with paths of the machine.
    text = picture.read_text(encoding="utf-8")
    text = re.sub(r'(<text id="title"[^>]*>)[^<]*', r"\1CPU time of the client", text)
    picture.write_text(text, encoding="utf-8", newline="\n")
    return True
