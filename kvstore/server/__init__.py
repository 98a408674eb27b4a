"""The servers that are measured.

launch    serving(), serving_sharded(), serving_go(): servers in their own processes; exceptions
settings  ServerSettings: the settings of a server, checked
__main__  the command: listen, answer, drain; on threads or asyncio; the status report
service   one call, from request to reply, and the count of operations; on threads and on asyncio
stream    a stream request with many operations, and its reply; back-pressure on one stream
admission limits, deadlines and the thread pool; work on the metadata of every call
store     what an operation uses: its lock, the simulated disk, and the data
durable   a store on a real disk (SQLite), and its services
etcd, etcd_nodes   services with their data in etcd; a cluster on this machine
proxy     services that forward every call to another server
"""

from typing import TYPE_CHECKING, Any

from kvstore.server.launch import (
    EtcdNotInstalled,
    Server,
    ServerDidNotStart,
    ShardedServer,
    serving,
    serving_sharded,
)
from kvstore.server.settings import LOCKINGS, WRITINGS, ServerSettings

if TYPE_CHECKING:
    from kvstore.server.etcd_nodes import etcd_cluster

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


def __getattr__(name: str) -> Any:
    """Import `etcd_cluster` at its first use: each server would read etcd's messages otherwise."""
    if name == "etcd_cluster":
        from kvstore.server.etcd_nodes import etcd_cluster

        return etcd_cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
