"""How calls are made, recorded and limited.

workload, sharded_workload   operations, drawn from a seed; the same over several servers
schedule, pacing    when each operation is due, when a run ends; callers that join one by one
strategies   how many calls are in flight: the functions that the course is about
adaptive, retrying   a limit that adapts to the latency; retries of refused calls
measured    measured_channel(): a channel that records every call made through it
recording, measured_channel, measured_channel_aio   its settings; for threads; for asyncio
client      the channels of one run, and its strategy on them
channel, connections   connecting to the right server; which connection a call takes
messages, batches   operations as protobuf messages; batches drawn and encoded ahead
method_calls, reflection   calls of any method of any service, and how it is found
tls_check, token_channel   whether both ends agree about encryption; the token of each call
options     RunOptions: the settings of a run, checked before it begins
monitor, server_report   memory and servers during a run; the reports of servers
load         run(): a run made by this process, or by a fleet
in_process   run_in_process(): a run made by another process
fleet        several load generators that make one run, placed by Dask
errors       the public exceptions
"""

from kvstore.client import load, pacing, strategies, workload
from kvstore.client.errors import NotEnoughMemory, RunFailed, RunInterrupted, ServerGone
from kvstore.client.in_process import run_in_process
from kvstore.client.measured import measured_channel

__all__ = [
    "NotEnoughMemory",
    "RunFailed",
    "RunInterrupted",
    "ServerGone",
    "load",
    "measured_channel",
    "pacing",
    "run_in_process",
    "strategies",
    "workload",
]
