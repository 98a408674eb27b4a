"""Services that are not the course's: the greeter in plain text, and with TLS."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvstore.course.lessons.lesson_13.greeter import Greeter, greeter


@pytest.fixture(scope="session")
def a_greeter() -> Iterator[Greeter]:
    """A greeter that needs a moment for each greeting."""
    with greeter(work_s=0.002, workers=4) as running:
        yield running


@pytest.fixture(scope="session")
def certificates(tmp_path_factory) -> Path:
    """A folder with an authority, a server's certificate for localhost and a client's.

    They are made by openssl, which is skipped where it is missing.
    """
    folder: Path = tmp_path_factory.mktemp("certificates")
    try:
        for name in ("ca", "other", "server", "client"):
            _certificate(folder, name)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


def _certificate(folder: Path, name: str) -> None:
    key, cert, request = (folder / f"{name}.{kind}" for kind in ("key", "pem", "csr"))
    subject = ["-subj", f"/CN={'localhost' if name == 'server' else name}"]
    make = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    if name in ("ca", "other"):
        _run([*make, "-x509", "-days", "2", "-keyout", key, "-out", cert, *subject])
        return
    _run([*make, "-keyout", key, "-out", request, *subject])
    names = folder / f"{name}.names"
    names.write_text("subjectAltName=DNS:localhost\n")
    _run(
        ["openssl", "x509", "-req", "-days", "2", "-in", request, "-CA", folder / "ca.pem",
         "-CAkey", folder / "ca.key", "-CAcreateserial", "-out", cert, "-extfile", names]
    )  # fmt: skip


def _run(command: list[object]) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=30)
