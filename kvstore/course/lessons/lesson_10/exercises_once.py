"""A Create that may be sent twice: the store remembers which request created a key."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from kvstore.course.exercises import Verdict, expect, judges, passed
from kvstore.course.exercises.puppet import served
from kvstore.course.lessons import words
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

say = words("10")

DEADLINE_S = 8.0
LONG_S = 0.6
"""Two calls that are sent at once are both at a disk that takes so long."""


@judges("10.once")
def _judge_once(answer: Any) -> Verdict:
    if not isinstance(answer, type):
        answer()  # it may still have to be written
        expect(False, say("no_class"))
    expect(hasattr(answer, "Retrieve"), say("no_store"))
    store = answer()
    with (
        served(store, ThreadPoolExecutor(8)) as address,
        grpc.insecure_channel(address) as channel,
    ):
        _try(KeyValueServiceStub(channel), store)
    return passed(say("passed_once"))


def _try(stub: Any, store: Any) -> None:
    def send(key: bytes, value: bytes, request_id: str = "", timeout_s: float = DEADLINE_S) -> Any:
        metadata = [("request-id", request_id)] if request_id else None
        request = pb.CreateRequest(key=key, value=value)
        return stub.Create.future(request, metadata=metadata, timeout=timeout_s)

    def end(call: Any) -> str:
        call.exception()
        detail = f" ({call.details()})" if call.code() is grpc.StatusCode.UNKNOWN else ""
        return f"{call.code().name}{detail}"

    def value_of(key: bytes) -> bytes:
        value: bytes = stub.Retrieve(pb.RetrieveRequest(key=key), timeout=DEADLINE_S).value
        return value

    first = end(send(b"cup", b"tea", "id 1"))
    expect(first == "OK", say("create_failed", first=first))
    again = end(send(b"cup", b"tea", "id 1"))
    expect(again == "OK", say("repeated_refused", again=again))
    other = end(send(b"cup", b"milk", "id 2"))
    expect(
        other == "ALREADY_EXISTS",
        say("other_client_accepted", other=other),
    )
    expect(value_of(b"cup") == b"tea", say("refused_and_stored"))
    second_key = end(send(b"pot", b"tea", "id 3"))
    expect(second_key == "OK", say("second_key_refused", second_key=second_key))
    plain = [end(send(b"jug", b"water")) for _ in range(2)]
    expect(
        plain == ["OK", "ALREADY_EXISTS"],
        say("without_an_id", first=plain[0], second=plain[1]),
    )
    disk_s, store.write_s = store.write_s, LONG_S
    at_once = [send(b"can", b"oil", "id 4") for _ in range(2)]
    ends = [end(call) for call in at_once]
    expect(
        ends == ["OK", "OK"],
        say("two_at_once", first=ends[0], second=ends[1]),
    )
    store.write_s = disk_s
    late = end(send(b"mug", b"soup", "id 5", timeout_s=0.01))
    again = end(send(b"mug", b"soup", "id 5"))
    expect(
        again == "OK",
        say("cut_and_repeated", late=late, again=again),
    )
