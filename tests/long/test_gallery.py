"""`rpcload` on services in Go, made of public modules: each has a ceiling known by construction.

A busy machine makes calls longer and never shorter: it can only lower a ceiling.
"""

import json
import re
import shutil
import signal
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
RUN = r"run: .* [1-9][\d,]* answered"


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
def serving(program: Path, kind: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([program, kind], **pipes) as process:
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def rpcload(address, *flags, until=None, then=lambda command: None) -> tuple[int, dict, str]:
    """The exit status, the report, and standard error. `then` runs at such a line of progress."""
    with subprocess.Popen(
        [sys.executable, "-m", "kvstore.load_test", address, HELLO, "--output=json", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        if until is not None:
            while not re.search(until, line := command.stderr.readline()):
                assert line, "the command ended"
            then(command)
        out, err = command.communicate(timeout=300)
    return command.returncode, json.loads(out or "{}"), err


@pytest.mark.parametrize(
    ("kind", "ceiling_per_s", "limit"),
    [
        ("pool", 80, "a pool of about"),
        ("lock", 40, "a lock, a disk or a single worker"),
        ("limiter", 40, "a lock, a disk or a single worker"),
        ("shed", 80, "calls that the service refuses"),
        ("streams", 80, "a limit of streams on a connection"),
        ("ages", 80, "a pool of about"),
        ("garbled", 80, "a pool of about"),
        ("late", 80, "a pool of about"),
    ],
)
def test_the_ceiling_and_what_sets_it_are_right(program, kind, ceiling_per_s, limit):
    with serving(program, kind) as (address, _):
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
    with serving(program, "streams") as (address, _):
        flags = ["--seconds=2s", "--in-flight=2"]
        one, two = (
            rpcload(address, *flags, *more)[1]["calibration"]["ceiling_per_s"]
            for more in ([], ["--connections=2"])
        )

    assert two <= 160 * 1.02
    assert 1.5 < two / one


def test_a_service_without_a_limit_is_not_blamed(program):
    with serving(program, "sleep") as (address, _):
        status, report, err = rpcload(address, "--in-flight=4", "--seconds=2s")
    calibration = report["calibration"]

    assert 0 == status, err
    assert "pool" not in calibration["limit"]["evidence"] or not calibration["saturated"]
    assert calibration["ceiling_per_s"] > 80


def test_a_service_that_freezes_is_named_and_the_generator_is_not(program):
    with serving(program, "pool") as (address, process):

        def freeze(command):
            process.send_signal(signal.SIGSTOP)
            subprocess.run(["sleep", "3"], check=True)
            process.send_signal(signal.SIGCONT)

        status, report, err = rpcload(
            address, "--in-flight=4", "--seconds=6s", "--no-calibration", until=RUN, then=freeze
        )
    names = [each["name"] for each in report["verdict"]]

    assert 0 == status, err
    assert "stood still" in names
    assert "generator" not in names


def test_each_exit_status_has_the_services_that_deserve_it(program):
    """The others end with 0, in the test of the ceilings."""
    ends = {
        "dies": (1, "no server answers at"),
        "undescribed": (2, "--descriptors"),
        "refuses": (3, "PERMISSION_DENIED"),
        "endless": (130, "interrupted before the run began"),
    }
    statuses, errors = {}, {}
    for kind in ends:
        interrupted = {
            "until": "waiting for the first call",
            "then": lambda command: command.send_signal(signal.SIGINT),
        }
        with serving(program, kind) as (address, _):
            statuses[kind], _, errors[kind] = rpcload(
                address,
                "--in-flight=4",
                "--seconds=60s",
                "--no-calibration",
                **(interrupted if kind == "endless" else {}),
            )

    assert {kind: status for kind, (status, _) in ends.items()} == statuses
    assert all(text in errors[kind] for kind, (_, text) in ends.items()), errors
