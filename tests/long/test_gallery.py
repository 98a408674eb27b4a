"""`rpcload` on services in Go, made of public modules: each has a ceiling known by construction.

A busy machine makes calls longer and never shorter: it can only lower a ceiling.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SOURCE = Path(__file__).with_name("gallery")
HELLO = "helloworld.Greeter/SayHello"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("the gallery is built with Go")
    path = tmp_path_factory.mktemp("gallery") / "gallery"
    built = subprocess.run(["go", "build", "-o", path, "."], cwd=SOURCE, capture_output=True)
    if built.returncode:
        pytest.skip(f"the gallery could not be built: {built.stderr.decode()[-200:]}")
    return path


@contextmanager
def serving(program: Path, kind: str) -> Iterator[str]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([program, kind], **pipes) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def rpcload(address, *flags) -> tuple[int, dict, str]:
    """The exit status, the report, and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "kvstore.load_test", address, HELLO, "--output=json", *flags],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.mark.parametrize(
    ("kind", "ceiling_per_s", "limit"),
    [
        ("pool", 80, "a pool of about"),
        ("lock", 40, "a lock, a disk or a single worker"),
        ("limiter", 40, "a lock, a disk or a single worker"),
        ("shed", 80, "calls that the service refuses"),
        ("streams", 80, "a limit of streams on a connection"),
    ],
)
def test_the_ceiling_and_what_sets_it_are_right(program, kind, ceiling_per_s, limit):
    with serving(program, kind) as address:
        status, report, err = rpcload(address, "--in-flight=4", "--seconds=2s")
    calibration = report["calibration"]
    low, high = calibration["ceiling_95"]

    assert 0 == status, err
    assert 0.7 * ceiling_per_s <= high
    assert low <= 1.02 * ceiling_per_s
    assert calibration["saturated"]
    assert limit in " ".join(map(str, calibration["limit"].values()))
    assert "OK" in report["run"]["statuses"]
    assert kind == "shed" or {"OK"} == {*report["run"]["statuses"]}


def test_a_limit_of_streams_is_shown_by_a_second_connection(program):
    with serving(program, "streams") as address:
        flags = ["--seconds=2s", "--in-flight=2"]
        one, two = (
            rpcload(address, *flags, *more)[1]["calibration"]["ceiling_per_s"]
            for more in ([], ["--connections=2"])
        )

    assert two <= 160 * 1.02
    assert 1.5 < two / one


def test_a_service_without_a_limit_is_not_blamed(program):
    with serving(program, "sleep") as address:
        status, report, err = rpcload(address, "--in-flight=4", "--seconds=2s")
    calibration = report["calibration"]

    assert 0 == status, err
    assert "pool" not in calibration["limit"]["evidence"] or not calibration["saturated"]
    assert calibration["ceiling_per_s"] > 80
