"""The commands of README.md for a fleet with TLS, typed as they stand there, on one machine."""

import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="no Dask"),
    pytest.mark.skipif(shutil.which("bash") is None, reason="no bash"),
]

RUN = """
import socket, sys, time
from kvstore.client import load, workload
from kvstore.client.errors import FleetNotReached
from kvstore.client.fleet import Cluster
from kvstore.client.strategies import tasks
from kvstore.server import serving

if __name__ == "__main__":
    ends_s = time.monotonic() + 90
    with serving(read_delay_s=0, write_delay_s=0) as server:
        while True:
            try:
                fleet = Cluster(sys.argv[1], workers=1)
                run = load.run(tasks, server, workload.crud(), fleet=fleet, calls=20, in_flight=2)
                break
            except FleetNotReached:
                if time.monotonic() > ends_s:
                    raise
    print(len(run.records), run.settings["workers"][0]["worker"])
"""


def test_the_commands_of_the_readme_start_a_fleet_with_tls(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("### A fleet on several machines\n")[2].partition("\n### ")[0]
    make, settings, start = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    start = start.replace("HOST:8786", place)
    start = start.replace(
        "--host HOST --port 8786", "--host {} --port {}".format(*place.split(":"))
    )
    (tmp_path / "run.py").write_text(RUN)
    script = "\n".join(
        [
            "trap 'kill $(jobs -p); wait' EXIT",
            make,
            settings,
            *(f"{line} 2>>log.txt &" for line in start.strip().splitlines()),
            f"{shlex.quote(sys.executable)} run.py tls://{place}",
        ]
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=known, capture_output=True, text=True, timeout=110
    )

    assert 0 == done.returncode, done.stderr[-2000:]
    assert re.fullmatch(r"20 tls://127\.0\.0\.1:\d+\n", done.stdout)
    assert 0o600 == (tmp_path / "dask.pem").stat().st_mode & 0o777
    with socket.socket() as probe:  # nothing is left behind
        assert 0 != probe.connect_ex(("127.0.0.1", int(place.split(":")[1])))
