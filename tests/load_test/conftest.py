"""Services that are not the course's: the greeter, and orders as others write them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from greeter import Greeter, greeter
from orders import Orders, descriptor_set, orders


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
    """A folder with an authority, another one, a server's certificate for localhost, a client's."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    for name, host in (("server", "localhost"), ("client", "client")):
        issued = authority.issue_cert(host)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return folder
