"""The commands of docs/fleet.md for a fleet with TLS, typed as they stand there, on one machine."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="no Dask"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="no bash"),
]

RUN = """
import json, sys, time
from kvstore.client import load, workload
from kvstore.client.errors import FleetNotReached
from kvstore.client.fleet import Cluster
from kvstore.client.strategies import tasks
from kvstore.server import serving

if __name__ == "__main__":
    scheduler, workers, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    ends_s = time.monotonic() + 90
    with serving(read_delay_s=0, write_delay_s=0, **settings) as server:
        while True:
            try:
                fleet = Cluster(scheduler, workers=workers)
                run = load.run(tasks, server, workload.crud(), fleet=fleet, calls=100, in_flight=4)
                break
            except FleetNotReached:
                if time.monotonic() > ends_s:
                    raise
    issued = {each["worker"]: each["issued"] for each in run.settings["workers"]}
    print(json.dumps([len(run.records), run.server.answered, issued]))
"""


def by_the_page(folder: Path, host: str, *others: str, **settings: Any) -> list[Any]:
    """Make a run with a worker here and one by each of the other commands, which begin so.

    `settings` are the server's. Return its calls, those that the server counted, and the calls of
    each worker by its address. Nothing is left running.
    """
    text = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    make, environment, start = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    start = start.replace("HOST", host).replace("8786", str(port))
    scheduler, worker = start.strip().splitlines()
    (folder / "run.py").write_text(RUN)
    arguments = [f"tls://{host}:{port}", str(1 + len(others)), json.dumps(settings)]
    script = "\n".join(
        [
            "trap 'kill $(jobs -p); wait' EXIT",
            make,
            environment,
            *(f"{line} 2>>log.txt &" for line in (scheduler, worker)),
            *(f"{begin} {worker} 2>>log.txt &" for begin in others),
            shlex.join([sys.executable, "run.py", *arguments]),
        ]
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=known, capture_output=True, text=True, timeout=110
    )

    assert 0 == done.returncode, done.stderr[-2000:]
    with socket.socket() as probe:
        assert 0 != probe.connect_ex((host, port))
    found: list[Any] = json.loads(done.stdout)
    return found


def test_the_commands_of_the_readme_start_a_fleet_with_tls(tmp_path):
    calls, counted, issued = by_the_page(tmp_path, "127.0.0.1")

    assert 100 == calls == counted
    assert ["127.0.0.1"] == [re.match(r"tls://(.*):", each)[1] for each in issued]
    assert 0o600 == (tmp_path / "dask.pem").stat().st_mode & 0o777
