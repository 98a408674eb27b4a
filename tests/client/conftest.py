"""One server for the tests of the client: the contract holds every strategy on both stacks."""

from collections.abc import Iterator

import pytest
from stacks import serving_quickly

from kvstore.server import Server


@pytest.fixture(scope="session")
def stack() -> str:
    """The stack of the servers in this folder."""
    return "threads"


@pytest.fixture(scope="session")
def quick_server(stack: str) -> Iterator[Server]:
    """A server with short delays and station times; tests share it, each with its own keys."""
    with serving_quickly(stack) as server:
        yield server
