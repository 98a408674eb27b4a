"""One server for the tests of the benchmarks, which measure clients."""

import pytest


@pytest.fixture(scope="session")
def stack() -> str:
    """The stack of the servers in this folder."""
    return "asyncio"
