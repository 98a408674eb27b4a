"""The servers that are measured.

launch    serving() and its like: servers in processes of their own; exceptions
__main__  the command: listen, answer, drain; on threads or asyncio; the status report
service   the key-value service on threads and on asyncio: streams
unary     the unary methods, from request to reply, on threads and on asyncio
counts    the count of operations
stream    a stream request with many operations, and its reply; back-pressure on one stream
admission limits, deadlines and the thread pool; work on the metadata of every call
store     what an operation uses: its lock, the simulated disk, and the data
durable   a store on a real disk (SQLite), and its service on asyncio
etcd, etcd_nodes   a service with its data in etcd, on asyncio; a cluster on this machine
forwarding   a service that forwards every unary call to another server
distance  a TCP proxy that delivers everything later: a server at a distance
"""

from typing import TYPE_CHECKING, Any

from kvstore.server.distance import at_distance
from kvstore.server.launch import (
    EtcdNotInstalled,
    Server,
    ServerDidNotStart,
    ShardedServer,
    serving,
    serving_replicas,
)
from kvstore.server_settings import LOCKINGS, ServerSettings

if TYPE_CHECKING:
    from kvstore.server.etcd_nodes import etcd_cluster

__all__ = [
    "LOCKINGS",
    "EtcdNotInstalled",
    "Server",
    "ServerDidNotStart",
    "ServerSettings",
    "ShardedServer",
    "at_distance",
    "etcd_cluster",
    "serving",
    "serving_replicas",
]


def __getattr__(name: str) -> Any:
    """Import `etcd_cluster` at its first use: each server would read etcd's messages otherwise."""
    if name == "etcd_cluster":
        from kvstore.server.etcd_nodes import etcd_cluster

        return etcd_cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
