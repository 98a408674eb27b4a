"""How calls are made, recorded and limited.

workload     operations, drawn from a seed; calls of any method of any service
schedule, pacing    operations for one server or several, one by one or in batches; when each is due
strategies   how many calls are in flight: the functions that the course is about
recording, measured_channel, measured_channel_aio   channels that record every call; their settings
client       the channels of one run, and its strategy on them; measured_channel(), without a run
channel, connections   connecting to the right server; which connection a call takes
messages     operations as protobuf messages
reflection   how a method of any service is found, and its requests from JSON
plan         RunOptions, and Plan: all that a run needs, checked once; the parts of a run
monitor      memory and servers during a run; the reports of servers
load         run(): a run made by this process, or by the generators of a fleet
separate_process   run_in_process(): the same from a process of its own
fleet        several load generators that make one run, placed by Dask
errors       the public exceptions
"""

from kvstore.client import load, pacing, strategies, workload
from kvstore.client.client import measured_channel
from kvstore.client.errors import NotEnoughMemory, RunFailed, RunInterrupted, ServerGone
from kvstore.client.separate_process import run_in_process

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
