"""Lesson 11: create a key in etcd only if it is absent, and how often a cluster is late."""

from collections.abc import Sequence
from math import comb
from typing import Any

import grpc
from hypothesis import strategies as st

from kvstore.course.exercises.base import Exercise, Verdict, WrongAnswer, not_yet, passed
from kvstore.course.exercises.drawn import in_order_of, judge_drawn
from kvstore.course.exercises.one_node_etcd import OTHER, OneNode, one_node
from kvstore.v1.etcd_pb2 import Compare, PutRequest, RangeRequest, RequestOp, TxnRequest

# 11.create_if_absent ----------------------------------------------------------------------------


def create_if_absent(stub: Any, key: bytes, value: bytes) -> bool:
    """One transaction: if the version of the key is 0, it does not exist; then put."""
    reply = stub.Txn(
        TxnRequest(
            compare=[Compare(key=key, target=Compare.VERSION, result=Compare.EQUAL, version=0)],
            success=[RequestOp(request_put=PutRequest(key=key, value=value))],
        )
    )
    return bool(reply.succeeded)


def _put_only(stub: Any, key: bytes, value: bytes) -> bool:
    stub.Put(PutRequest(key=key, value=value))
    return True


def _looks_then_puts(stub: Any, key: bytes, value: bytes) -> bool:
    if stub.Range(RangeRequest(key=key)).kvs:
        return False
    stub.Put(PutRequest(key=key, value=value))
    return True


def _if_present(stub: Any, key: bytes, value: bytes) -> bool:
    present = Compare(key=key, target=Compare.VERSION, result=Compare.GREATER, version=0)
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return bool(stub.Txn(TxnRequest(compare=[present], success=[put])).succeeded)


def _always_true(stub: Any, key: bytes, value: bytes) -> bool:
    create_if_absent(stub, key, value)
    return True


def _hides_errors(stub: Any, key: bytes, value: bytes) -> bool:
    try:
        return create_if_absent(stub, key, value)
    except grpc.RpcError:
        return False


def _returns_the_reply(stub: Any, key: bytes, value: bytes) -> Any:
    absent = Compare(key=key, target=Compare.VERSION, result=Compare.EQUAL, version=0)
    put = RequestOp(request_put=PutRequest(key=key, value=value))
    return stub.Txn(TxnRequest(compare=[absent], success=[put]))


def _judge_create_if_absent(answer: Any) -> Verdict:
    with one_node() as (node, stub):
        for problem in (_new_key, _known_key, _race, _deleted_key, _error):
            if message := problem(answer, node, stub):
                return not_yet(message)
    return passed(
        "etcd compares and writes in one step, so of many clients exactly one creates the key."
    )


def _new_key(answer: Any, node: OneNode, stub: Any) -> str:
    result = answer(stub, b"new", b"tea")
    if node.value(b"new") != b"tea":
        return (
            f"The key did not exist, and afterwards its value is {node.value(b'new')!r}, not"
            " b'tea'. A key that does not exist has version 0."
        )
    if result is not True:
        return f"The key was created, and your function returned {result!r}, not True."
    return ""


def _known_key(answer: Any, node: OneNode, stub: Any) -> str:
    result = answer(stub, b"new", b"coffee")
    if node.value(b"new") != b"tea":
        return "The key existed, and you replaced its value. Put stores a value in any case."
    if result is not False:
        return f"The key existed and was not created; your function returned {result!r}, not False."
    return ""


def _race(answer: Any, node: OneNode, stub: Any) -> str:
    node.other_comes = True
    result = answer(stub, b"race", b"tea")
    if node.value(b"race") != OTHER:
        return (
            "Another client created the key between your look and your write, and you replaced its"
            " value. Let etcd compare and write in one step: `stub.Txn`."
        )
    if result is not False:
        return (
            f"Another client created the key first; your function returned {result!r}, not False."
        )
    return ""


def _deleted_key(answer: Any, node: OneNode, stub: Any) -> str:
    with_value = PutRequest(key=b"gone", value=b"")
    stub.Put(with_value)
    if answer(stub, b"gone", b"tea") is not False:
        return "A key with an empty value exists: compare its version, not its value."
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
    return (
        f"etcd answered UNAVAILABLE, and your function returned {result!r}. Then it is unknown"
        " whether the key was created. Let the error through."
    )


def _root(error: BaseException) -> BaseException | None:
    """Return what the learner's function raised; the grading wraps it."""
    return error.__cause__ or error.__context__


CREATE_IF_ABSENT = Exercise(
    id="11.create_if_absent",
    title="Create, only if absent",
    hints=(
        "Two calls, Range and then Put, leave a gap in which another client can write. `Txn` has"
        " none.",
        "The condition is a `Compare` with `target=Compare.VERSION`, `result=Compare.EQUAL` and"
        " `version=0`.",
        "`TxnRequest(compare=[...], success=[RequestOp(request_put=PutRequest(key=key,"
        " value=value))])`; then return `stub.Txn(request).succeeded`.",
    ),
    reference=create_if_absent,
    wrong=(
        WrongAnswer(_put_only, "Put stores a value in any case"),
        WrongAnswer(_looks_then_puts, "between your look and your write"),
        WrongAnswer(_if_present, "has version 0"),
        WrongAnswer(_always_true, "not False"),
        WrongAnswer(_hides_errors, "Let the error through"),
        WrongAnswer(_returns_the_reply, "not True"),
    ),
    judge=_judge_create_if_absent,
)

# 11.late_writes ---------------------------------------------------------------------------------


def late_writes(stalled: float, nodes: int) -> float:
    """The leader must run, and with it a majority: at least nodes // 2 of the followers."""
    followers = nodes - 1
    enough = sum(_exactly(run, followers, 1 - stalled) for run in range(nodes // 2, followers + 1))
    return 1 - (1 - stalled) * enough


def _exactly(count: int, of: int, chance: float) -> float:
    return comb(of, count) * chance**count * (1 - chance) ** (of - count)


def _majority(stalled: float, nodes: int) -> float:
    return sum(_exactly(down, nodes, stalled) for down in range(nodes // 2 + 1, nodes + 1))


LATE_INPUTS = st.fixed_dictionaries(
    {
        "stalled": st.integers(0, 20).map(lambda n: n / 20),
        "nodes": st.sampled_from([1, 3, 5, 7]),
    }
)
LATE_MISTAKES: Sequence[WrongAnswer] = (
    WrongAnswer(
        _majority,
        "Without a leader any majority would do. Here the leader must be in it.",
    ),
    WrongAnswer(
        lambda stalled, nodes: stalled,
        "That is the leader alone. A write also waits when too few followers run.",
    ),
    WrongAnswer(
        lambda stalled, nodes: 1 - (1 - stalled) ** nodes,
        "So often *any* node stalls. One follower of two may stall, and no write waits.",
    ),
    WrongAnswer(
        lambda stalled, nodes: 1 - late_writes(stalled, nodes),
        "So often a write does *not* wait.",
    ),
    WrongAnswer(
        lambda stalled, nodes: stalled + (1 - stalled) * stalled ** (nodes - 1),
        "With five nodes, a write waits before *all* followers stall: two of them must run.",
    ),
    WrongAnswer(
        lambda stalled, nodes: stalled + 1 - late_writes_of_followers(stalled, nodes),
        "You add two chances that can hold at once. Followers matter only when the leader runs.",
    ),
)


def late_writes_of_followers(stalled: float, nodes: int) -> float:
    """Return the chance that enough followers run."""
    followers = nodes - 1
    return sum(_exactly(run, followers, 1 - stalled) for run in range(nodes // 2, followers + 1))


def _judge_late_writes(answer: Any) -> Verdict:
    return judge_drawn(
        answer,
        late_writes,
        LATE_INPUTS.map(in_order_of(late_writes)),
        mistakes=LATE_MISTAKES,
        right="With p = 1/4, three nodes are late for 30 % of the writes, and one server for 25 %."
        " Copies with a leader keep the data. They make a stalled write no rarer.",
    )


LATE_WRITES = Exercise(
    id="11.late_writes",
    title="How often is a write late?",
    hints=(
        "When does a write not wait? The leader runs, and enough of the followers do.",
        "Of n nodes a majority is n // 2 + 1. One of them is the leader, so n // 2 followers must"
        " run.",
        "Exactly k of m followers run with the chance comb(m, k) · (1 - p)^k · p^(m - k), with"
        " `comb` from `math`. Add that up for k = n // 2, ..., m; times 1 - p for the leader.",
    ),
    reference=late_writes,
    solution_parts=(_exactly,),
    wrong=tuple(LATE_MISTAKES),
    judge=_judge_late_writes,
)
