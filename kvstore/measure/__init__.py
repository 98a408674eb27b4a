"""Measurements of a run.

recorder       one record for each call; memory, threads and garbage collections over time
server_report  what the servers of a run report of themselves
run            the facts of a run, frozen (`Run`), how it ended, and its file
audit          counts of calls checked twice; Little's law on the trace
parts          calls of one kind, in an interval, or in one burst; a run merged from parts
cpu_cost       CPU time per call
figures        the interval of the throughput, quantiles of latency, goodput
validity       reasons to distrust a run; whether the load generator limited it
host           the machine, its versions, and the time of an fsync on its disk
"""

from kvstore.measure.audit import accounts, audit
from kvstore.measure.figures import (
    Quantile,
    goodput,
    latencies_s,
    quantile,
    throughput_interval,
)
from kvstore.measure.host import cores, describe_host
from kvstore.measure.parts import during, only
from kvstore.measure.recorder import Cpu, Sample
from kvstore.measure.run import Outcome, Run
from kvstore.measure.server_report import ServerReport
from kvstore.measure.validity import Finding, findings, machine_limit, verdict

__all__ = [
    "Cpu",
    "Finding",
    "Outcome",
    "Quantile",
    "Run",
    "Sample",
    "ServerReport",
    "accounts",
    "audit",
    "cores",
    "describe_host",
    "during",
    "findings",
    "goodput",
    "latencies_s",
    "machine_limit",
    "only",
    "quantile",
    "throughput_interval",
    "verdict",
]
