"""The room of what is measured.

process   serving(): a server in a process of its own
sharded   serving_sharded(): several of them, the keys shared out
settings  what can be set
serve     listen, answer, drain, on threads or asyncio
service, service_async   one call, from request to reply
front, front_async, back_end   a service that asks another server for every answer
batch                    a message of many operations, taken apart and put together
locking, disk, store     where it waits, works, and is kept
replicas, replicated     serving_replicated(): the same data on several, behind one front
durable, service_durable a store on a real disk, and the service that waits for it
racing                   stores that look first and write later
deadlines                whether it is still worth the work
limits, pool             what is accepted, who runs it
headers                  work on the metadata of every call, before all that
status, reflecting       what the server says of itself
"""

from kvstore.server.process import Server, ServerDidNotStart, serving
from kvstore.server.replicas import ReplicatedServer, serving_replicated
from kvstore.server.settings import LOCKINGS, WRITINGS, ServerSettings
from kvstore.server.sharded import ShardedServer, serving_sharded

__all__ = [
    "LOCKINGS",
    "WRITINGS",
    "ReplicatedServer",
    "Server",
    "ServerDidNotStart",
    "ServerSettings",
    "ShardedServer",
    "serving",
    "serving_replicated",
    "serving_sharded",
]
