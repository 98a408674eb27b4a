"""Services that are not the course's: the greeter, and orders as others write them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from orders import Orders, descriptor_set, orders

from kvstore.course.lessons.lesson_13.greeter import Greeter, greeter


@pytest.fixture(scope="session")
def a_greeter() -> Iterator[Greeter]:
    """A greeter that needs a moment for each greeting."""
    with greeter(work_s=0.002, workers=4) as running:
        yield running


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> bytes:
    """The descriptor set of the orders."""
    return descriptor_set(tmp_path_factory.mktemp("proto"))


@pytest.fixture(scope="module")
def service(files) -> Iterator[Orders]:
    with orders(files) as running:
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

    def openssl(*words: object) -> None:
        command = ["openssl", *map(str, words)]
        subprocess.run(command, check=True, capture_output=True, timeout=30)

    subject = f"/CN={'localhost' if name == 'server' else name}"
    make = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make += ["-keyout", key, "-subj", subject]
    if name in ("ca", "other"):
        openssl(*make, "-x509", "-days", 2, "-out", cert)
        return
    openssl(*make, "-out", request)
    names = folder / f"{name}.names"
    names.write_text("subjectAltName=DNS:localhost\n")
    signed_by = ["-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial"]
    openssl("x509", "-req", "-days", 2, "-in", request, *signed_by, "-out", cert, "-extfile", names)
