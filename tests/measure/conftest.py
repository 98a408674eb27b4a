"""One run worked out by hand, for every test of figures and of files."""

import math

import pytest
from traces import CALLS, run_of

from kvstore.measure import Cpu, Run, Sample
from kvstore.measure.recorder import sample_rows


@pytest.fixture
def run() -> Run:
    samples = [Sample(0.0, 0, 0, 0, 1e8, 2e8, 5, 130), Sample(5.0, 2, 5, 3, 2e8, math.nan, 6, 131)]
    return run_of(
        CALLS,
        sample_rows=sample_rows(samples),
        client_cpu=Cpu(1.5, 0.25, 1.25),
        server_cpu=Cpu(math.nan, math.nan),
    )
