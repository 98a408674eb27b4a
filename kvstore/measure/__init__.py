"""Measurements of a run.

recorder       one record for each call, in memory or in a file
sampler        memory, threads and garbage collections of client and server over time
run            the facts of a run, frozen (`Run`), and its file
outcome        how a run ended
audit          counts of calls checked twice; Little's law on the trace and at each station
subsets        calls of one kind, in an interval, or in one burst
cpu_cost       CPU time per call
bottleneck     whether the load generator limited the run
validity       reasons to distrust a run; quantiles of latency with their intervals
summary        the figures that people compare: throughput with its interval, goodput
merge          one run from the parts that several generators recorded
host           the machine, its versions, and the time of an fsync on its disk
"""

from kvstore.gc_control import Collections
from kvstore.measure.audit import Accounts, Audit, Box, Boxes, accounts, audit, boxes
from kvstore.measure.bottleneck import Verdict, verdict
from kvstore.measure.host import cores, describe_host
from kvstore.measure.outcome import Outcome
from kvstore.measure.run import Run
from kvstore.measure.sampler import Cpu, Sample
from kvstore.measure.subsets import During, during, only, turns
from kvstore.measure.summary import Goodput, Interval, goodput, summary, throughput_interval
from kvstore.measure.validity import Finding, Quantile, findings, latencies_s, quantile

__all__ = [
    "Accounts",
    "Audit",
    "Box",
    "Boxes",
    "Collections",
    "Cpu",
    "During",
    "Finding",
    "Goodput",
    "Interval",
    "Outcome",
    "Quantile",
    "Run",
    "Sample",
    "Verdict",
    "accounts",
    "audit",
    "boxes",
    "cores",
    "describe_host",
    "during",
    "findings",
    "goodput",
    "latencies_s",
    "only",
    "quantile",
    "summary",
    "throughput_interval",
    "turns",
    "verdict",
]
