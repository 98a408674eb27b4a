"""The published clients, copied: they report what the originals would have reported."""

import pytest

from kvstore.client import load, workload
from kvstore.course.stories.java_client import JavaClient
from kvstore.server import serving


@pytest.mark.slow
def test_the_java_client_reports_all_but_its_creates():
    java = JavaClient()
    with serving(read_delay_s=0, write_delay_s=0.001) as server:
        run = load.run(java.do_client_work, server, workload.crud(value_bytes_mean=1), calls=60)

    made = run.server["operations"]
    assert 60 == sum(made.values())
    assert made["create/OK"] > 0
    assert 60 - made["create/OK"] == java.rpc_count
    assert java.rpc_count / 2 == java.reported_per_s(2.0)
