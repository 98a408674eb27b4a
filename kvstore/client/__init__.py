"""The room of how calls are made.

workload    what to ask: operations, drawn from a seed
schedule    when to ask, and until when; pacing: due times; joining: users one by one
batch       operations in columns, for one message
strategies  how many at once: the functions the course is about
adaptive    the same without knowing how many; retrying: asking again for what was refused
client      call, start, acall, stream: one record for each call
connections, route   the connections of a client, and which of them a call takes
stream, requests, channel   one open pipeline, messages, reaching the right server
servers, sharding, telling  all servers of a run, whose key it is, what they tell of it
watch, reach   looking on while a run lasts: memory, and a server that has gone
load        run(): all of it together, from this process
process     run_in_process(): the same from a process of its own, or from several
part, gate, generators, together   what each of several does, and the one run they make
"""

from kvstore.client import load, pacing, strategies, workload
from kvstore.client.load import RunFailed, RunInterrupted, ServerGone
from kvstore.client.process import NotEnoughMemory, run_in_process

__all__ = [
    "NotEnoughMemory",
    "RunFailed",
    "RunInterrupted",
    "ServerGone",
    "load",
    "pacing",
    "run_in_process",
    "strategies",
    "workload",
]
