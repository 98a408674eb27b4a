"""What the learner's front and client need for a run: a value in the back end, and who asks."""

from typing import Final

from kvstore.client.channel import connected, target_of
from kvstore.client.workload import MethodCalls
from kvstore.course.lessons.lesson_07.exercises import ask_all
from kvstore.course.lessons.lesson_07.exercises_server import serve
from kvstore.v1.kvstore_pb2 import CreateRequest, RetrieveRequest
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceStub

__all__ = ["ask_all", "calls", "serve"]

KEY: Final = b"the only key"
VALUE: Final = bytes(1024)


def calls(back_end: object) -> MethodCalls:
    """Put a value into this new back end, and return reads of its key."""
    with connected(target_of(back_end)) as (channel, _):
        KeyValueServiceStub(channel).Create(CreateRequest(key=KEY, value=VALUE), timeout=5.0)
    return MethodCalls(
        method="kvstore.v1.KeyValueService/Retrieve",
        shape="unary_unary",
        requests=((RetrieveRequest(key=KEY).SerializeToString(),),),
    )
