"""The servers that are measured.

launch    serving(), serving_sharded(): servers in their own processes
settings  ServerSettings: the settings of a server, checked
serve     listen, answer, drain; on threads or asyncio
service, service_async   one call, from request to reply
request   a stream request with many operations, and its reply
access    TLS and the token of a server that other machines can reach
admission, interceptors  limits, deadlines and the thread pool; work on the metadata of every call
locking, disk, store     the lock, the simulated disk and the data of a call
cas_stores  compare and replace, and a store that loses updates
durable   a store on a real disk (SQLite), and its services
etcd, etcd_nodes   services with their data in etcd; a cluster on this machine
proxy     services that forward every call to another server
stream_window   back-pressure on one stream
status    the status report: identity, settings and counts
errors    the public exceptions
"""

from kvstore.server.errors import EtcdNotInstalled, ServerDidNotStart
from kvstore.server.etcd_nodes import etcd_cluster
from kvstore.server.launch import (
    Server,
    ShardedServer,
    serving,
    serving_sharded,
)
from kvstore.server.settings import LOCKINGS, WRITINGS, ServerSettings

__all__ = [
    "LOCKINGS",
    "WRITINGS",
    "EtcdNotInstalled",
    "Server",
    "ServerDidNotStart",
    "ServerSettings",
    "ShardedServer",
    "etcd_cluster",
    "serving",
    "serving_sharded",
]
