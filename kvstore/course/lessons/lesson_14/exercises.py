"""Lesson 14: create a key in etcd only if it is absent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from kvstore.course.exercises import Verdict, judges, not_yet, passed
from kvstore.course.exercises.puppet import served
from kvstore.course.lessons import words
from kvstore.v1 import etcd_pb2 as pb
from kvstore.v1.etcd_pb2 import PutRequest
from kvstore.v1.etcd_pb2_grpc import KVServicer, KVStub, add_KVServicer_to_server

say = words("14")

OTHER = b"of another client"
"""The value that the other client writes."""


class OneNode(KVServicer):
    """One node of etcd's API in memory; a transaction compares and writes in one step.

    It can let another client write the key right before the learner's first write arrives.
    """

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
        stored, wanted = {
            pb.Compare.VERSION: (entry.version, compare.version),
            pb.Compare.CREATE: (entry.create_revision, compare.create_revision),
            pb.Compare.MOD: (entry.mod_revision, compare.mod_revision),
            pb.Compare.VALUE: (entry.value, compare.value),
        }[compare.target]
        if compare.target == pb.Compare.VALUE and compare.key not in self._entries:
            return False  # a key that does not exist has no value to compare
        holds: dict[int, bool] = {
            pb.Compare.EQUAL: stored == wanted,
            pb.Compare.NOT_EQUAL: stored != wanted,
            pb.Compare.GREATER: stored > wanted,
            pb.Compare.LESS: stored < wanted,
        }
        return holds[compare.result]


@contextmanager
def one_node() -> Iterator[tuple[OneNode, KVStub]]:
    """Serve one node while the block lasts; yield it and the stub of a client."""
    node = OneNode()
    with (
        served(node, add=add_KVServicer_to_server) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield node, KVStub(channel)


@judges("14.create_if_absent")
def _judge_create_if_absent(answer: Any) -> Verdict:
    with one_node() as (node, stub):
        for problem in (_new_key, _known_key, _race, _deleted_key, _error):
            if message := problem(answer, node, stub):
                return not_yet(message)
    return passed(say("passed_create_if_absent"))


def _new_key(answer: Any, node: OneNode, stub: Any) -> str:
    result = answer(stub, b"new", b"tea")
    if node.value(b"new") != b"tea":
        return say("another_value", value=node.value(b"new"))
    if result is not True:
        return say("created_not_true", result=result)
    return ""


def _known_key(answer: Any, node: OneNode, stub: Any) -> str:
    result = answer(stub, b"new", b"coffee")
    if node.value(b"new") != b"tea":
        return say("replaced")
    if result is not False:
        return say("existed_not_false", result=result)
    return ""


def _race(answer: Any, node: OneNode, stub: Any) -> str:
    node.other_comes = True
    result = answer(stub, b"race", b"tea")
    if node.value(b"race") != OTHER:
        return say("replaced_the_others")
    if result is not False:
        return say("lost_not_false", result=result)
    return ""


def _deleted_key(answer: Any, node: OneNode, stub: Any) -> str:
    with_value = PutRequest(key=b"gone", value=b"")
    stub.Put(with_value)
    if answer(stub, b"gone", b"tea") is not False:
        return say("empty_value")
    return ""


def _error(answer: Any, node: OneNode, stub: Any) -> str:
    node.unavailable = True
    try:
        result = answer(stub, b"unknown", b"tea")
    except BaseException as error:
        cause = error if isinstance(error, grpc.RpcError) else _root(error)
        if isinstance(cause, grpc.RpcError):
            return ""
        raise
    finally:
        node.unavailable = False
    return say("error_swallowed", result=result)


def _root(error: BaseException) -> BaseException | None:
    """Return what the learner's function raised; the grading wraps it."""
    return error.__cause__ or error.__context__
