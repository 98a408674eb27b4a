"""The room of what happened.

recorder  one record for each call, while it runs
journal   the same on file, for the case that the process is killed
sampler   memory and threads of both processes, over time
collected what the garbage collectors of both sides did meanwhile
run       all of it, frozen: `Run`
accounts  every operation: done, failed or unknown
audit     Little's law on the trace, and the count of calls
boxes     the same for every station of the server
during    what was answered between two moments
price     processor time of one call
only      the calls of one kind, by themselves
merge     one run out of those that several generators made together
goodput   answers that came while somebody still waited for them
turns     a run of turns, turn by turn
verdict   was the generator itself the limit?
summary   the figures people compare, with intervals
host      on what machine
fsync     how long the disk takes to have something for certain
"""

from kvstore.collector import Collections
from kvstore.measure.accounts import Accounts, accounts
from kvstore.measure.audit import Audit, audit
from kvstore.measure.boxes import Box, Boxes, boxes
from kvstore.measure.during import During, during
from kvstore.measure.goodput import Goodput, goodput
from kvstore.measure.host import cores, describe_host
from kvstore.measure.only import only
from kvstore.measure.run import Cpu, Run
from kvstore.measure.sampler import Sample
from kvstore.measure.summary import Interval, summary, throughput_interval
from kvstore.measure.turns import turns
from kvstore.measure.verdict import Verdict, verdict

__all__ = [
    "Accounts",
    "Audit",
    "Box",
    "Boxes",
    "Collections",
    "Cpu",
    "During",
    "Goodput",
    "Interval",
    "Run",
    "Sample",
    "Verdict",
    "accounts",
    "audit",
    "boxes",
    "cores",
    "describe_host",
    "during",
    "goodput",
    "only",
    "summary",
    "throughput_interval",
    "turns",
    "verdict",
]
