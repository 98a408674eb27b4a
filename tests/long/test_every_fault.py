"""Every fault with every strategy: the status, the message, the accounts, and nothing left."""

from collections.abc import Iterator

import pytest
from long.faults import judge, shared_servers, ways
from long.table import FAULTS, Fault

from kvstore.server import Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with shared_servers() as both:
        yield both


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault(fault: Fault, servers, record_property):
    number = FAULTS.index(fault)
    wrong, operations = [], 0
    for turn, way in enumerate(ways()):
        found, sent = judge(fault, way, servers[(number + turn) % 2])
        operations += sent
        wrong += [f"{way.name}: {each}" for each in found]
    record_property("judged", f"{len(ways())} strategies, {operations:,} operations accounted for")

    assert not wrong
