"""scaling.py: keys used unevenly, by hand."""

import pytest

from kvstore.model import scaling


@pytest.mark.parametrize(
    ("servers", "hottest", "share"),
    [(1, 0.05, 1.0), (20, 0.05, 1 / 10.26), (100, 0.05, 1 / 16.81), (4, 0.0, 0.25), (4, 1.0, 1.0)],
)
def test_the_busiest_server_has_the_hot_key_and_its_part_of_all_others(servers, hottest, share):
    assert share == pytest.approx(scaling.busiest_share(servers, hottest), rel=1e-3)
