"""Runs of a load test made by hand."""

from kvstore.measure import Cpu, Run
from kvstore.measure.recorder import Recorder, sample_rows


def run_of_recorder(recorder: Recorder, **facts) -> Run:
    """A run of ten seconds with these records; `rate_per_s` makes it an open loop."""
    rate_per_s = facts.pop("rate_per_s", None)
    records = recorder.array()
    usual = {
        "strategy": "bounded",
        "in_flight": 4,
        "settings": {"rate_per_s": rate_per_s, "paced": rate_per_s is not None, "deadline_s": 1.0},
        "server": {},
        "host": {"cores": 2},
        "started_at": "2026-01-01T12:00:00+00:00",
        "window_s": float(records["done_s"].max()),
        "issued": len(records),
        "outcome": "complete",
        "records": records,
        "sample_rows": sample_rows([]),
        "client_cpu": Cpu(1.0, 0.0),
        "server_cpu": Cpu(1.0, 0.0),
        "machine_cpu_s": 2.0,
    }
    return Run(**{**usual, **facts})
