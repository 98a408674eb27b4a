"""One node of etcd's API in memory, on which an exercise is judged; no etcd is needed.

It keeps the promise that matters: a transaction compares and writes in one step. It can let another
client write the key right before the first write of the learner arrives.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from kvstore.v1 import etcd_pb2 as pb
from kvstore.v1.etcd_pb2_grpc import KVServicer, KVStub, add_KVServicer_to_server

OTHER = b"of another client"
"""The value that the other client writes."""


class OneNode(KVServicer):
    """A store whose keys have versions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[bytes, pb.KeyValue] = {}
        self._revision = 1
        self.other_comes = False
        """Whether another client creates the key before the next write is executed."""
        self.unavailable = False
        """Whether every write ends with UNAVAILABLE."""
        self.calls: list[str] = []
        """The methods that were called, in order."""

    def value(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none."""
        with self._lock:
            return self._entries[key].value if key in self._entries else None

    def Range(self, request: Any, context: Any) -> pb.RangeResponse:
        """Return the entry of one key."""
        self.calls.append("Range")
        with self._lock:
            return self._range(request)

    def Put(self, request: Any, context: Any) -> pb.PutResponse:
        """Store a value, whatever was there."""
        self._write_comes("Put", request.key, context)
        with self._lock:
            self._put(request)
        return pb.PutResponse()

    def DeleteRange(self, request: Any, context: Any) -> pb.DeleteRangeResponse:
        """Delete one key."""
        self._write_comes("DeleteRange", request.key, context)
        with self._lock:
            return self._delete(request)

    def Txn(self, request: Any, context: Any) -> pb.TxnResponse:
        """Compare, and execute one of the two lists, in one step."""
        writes = [*request.success, *request.failure]
        keys = [each.request_put.key for each in writes if each.HasField("request_put")]
        self._write_comes("Txn", keys[0] if keys else b"", context)
        with self._lock:
            succeeded = all(map(self._holds, request.compare))
            chosen = request.success if succeeded else request.failure
            return pb.TxnResponse(succeeded=succeeded, responses=[self._do(op) for op in chosen])

    def _write_comes(self, method: str, key: bytes, context: Any) -> None:
        self.calls.append(method)
        if self.unavailable:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the leader was lost")
        if self.other_comes and key:
            self.other_comes = False
            with self._lock:
                self._put(pb.PutRequest(key=key, value=OTHER))

    def _range(self, request: Any) -> pb.RangeResponse:
        entry = self._entries.get(request.key)
        return pb.RangeResponse(kvs=[entry] if entry else [], count=int(entry is not None))

    def _put(self, request: Any) -> None:
        before = self._entries.get(request.key)
        self._revision += 1
        self._entries[request.key] = pb.KeyValue(
            key=request.key,
            value=request.value,
            create_revision=before.create_revision if before else self._revision,
            mod_revision=self._revision,
            version=before.version + 1 if before else 1,
        )

    def _delete(self, request: Any) -> pb.DeleteRangeResponse:
        return pb.DeleteRangeResponse(deleted=int(self._entries.pop(request.key, None) is not None))

    def _do(self, op: Any) -> pb.ResponseOp:
        if op.HasField("request_put"):
            self._put(op.request_put)
            return pb.ResponseOp(response_put=pb.PutResponse())
        if op.HasField("request_delete_range"):
            return pb.ResponseOp(response_delete_range=self._delete(op.request_delete_range))
        return pb.ResponseOp(response_range=self._range(op.request_range))

    def _holds(self, compare: Any) -> bool:
        entry = self._entries.get(compare.key, pb.KeyValue())
        found, wanted = {
            pb.Compare.VERSION: (entry.version, compare.version),
            pb.Compare.CREATE: (entry.create_revision, compare.create_revision),
            pb.Compare.MOD: (entry.mod_revision, compare.mod_revision),
            pb.Compare.VALUE: (entry.value, compare.value),
        }[compare.target]
        if compare.target == pb.Compare.VALUE and compare.key not in self._entries:
            return False  # a key that does not exist has no value to compare
        holds: dict[int, bool] = {
            pb.Compare.EQUAL: found == wanted,
            pb.Compare.NOT_EQUAL: found != wanted,
            pb.Compare.GREATER: found > wanted,
            pb.Compare.LESS: found < wanted,
        }
        return holds[compare.result]


@contextmanager
def one_node() -> Iterator[tuple[OneNode, KVStub]]:
    """Serve one node while the block lasts; yield it and the stub of a client."""
    node = OneNode()
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        add_KVServicer_to_server(node, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield node, KVStub(channel)
        finally:
            server.stop(None).wait()
