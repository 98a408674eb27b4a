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
    ends_s = time.monotonic() + 90
    with serving(read_delay_s=0, write_delay_s=0) as server:
        while True:
            try:
                fleet = Cluster(sys.argv[1], workers=1)
                run = load.run(tasks, server, workload.crud(), fleet=fleet, calls=100, in_flight=4)
                break
            except FleetNotReached:
                if time.monotonic() > ends_s:
                    raise
    workers = [each["worker"] for each in run.settings["workers"]]
    print(json.dumps([len(run.records), run.server.answered, workers]))
"""


def test_the_commands_of_the_readme_start_a_fleet_with_tls(tmp_path):
    text = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    make, environment, start = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start = start.replace("HOST", "127.0.0.1").replace("8786", str(port))
    (tmp_path / "run.py").write_text(RUN)
    script = "\n".join(
        [
            "trap 'kill $(jobs -p); wait' EXIT",
            make,
            environment,
            *(f"{line} 2>>log.txt &" for line in start.strip().splitlines()),
            shlex.join([sys.executable, "run.py", f"tls://127.0.0.1:{port}"]),
        ]
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    known = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=known, capture_output=True, text=True, timeout=110
    )

    assert 0 == done.returncode, done.stderr[-2000:]
    with socket.socket() as probe:
        assert 0 != probe.connect_ex(("127.0.0.1", port))
    calls, counted, workers = json.loads(done.stdout)
    assert 100 == calls == counted
    assert ["127.0.0.1"] == [re.match(r"tls://(.*):", each)[1] for each in workers]
    assert 0o600 == (tmp_path / "dask.pem").stat().st_mode & 0o777
