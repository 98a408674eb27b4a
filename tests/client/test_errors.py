"""What a peer sends reaches no terminal raw, and no proxy comes between programs of one machine."""

import os
import subprocess
import sys

import grpc
import pytest
from stacks import listening

from kvstore.client import RunFailed, load, workload
from kvstore.client.errors import ServerNotReached, printable

EVIL = "gone \x1b]0;owned\x07 \x9b31m\r"


class Aborting(grpc.ServerInterceptor):
    """Ends every call with a text that a terminal would obey."""

    def __init__(self, code):
        self._code = code

    def intercept_service(self, continuation, handler_call_details):
        def abort(requests, context):
            context.abort(self._code, EVIL)

        return grpc.stream_stream_rpc_method_handler(abort)


def first_error(stub, operations, in_flight):
    operation = next(operations)
    operation.rpc(stub)(operation.request)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ServerNotReached),
        (grpc.StatusCode.UNIMPLEMENTED, RunFailed),
    ],
)
def test_a_status_with_control_characters_is_printable(code, error):
    with (
        listening(interceptors=[Aborting(code)]) as address,
        pytest.raises(error, match=r"\\x1b") as refused,
    ):
        load.run(first_error, address, workload.crud(), calls=1)

    assert printable(str(refused.value)) == str(refused.value)
    assert "\x1b" not in str(refused.value)


ANSWERS = """
import sys
from concurrent.futures import ThreadPoolExecutor
import kvstore  # as a lesson does
import grpc

server = grpc.server(ThreadPoolExecutor(2))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
for host in ("127.0.0.1", "localhost"):
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        grpc.channel_ready_future(channel).result(20)
print("reached")
"""


@pytest.mark.slow
@pytest.mark.parametrize("known", [{"no_proxy": "example.org"}, {"no_grpc_proxy": "example.org"}])
def test_a_learners_own_channel_to_this_machine_uses_no_proxy(known):
    environment = {name: text for name, text in os.environ.items() if "proxy" not in name.lower()}
    environment |= {"http_proxy": "http://127.0.0.1:9", **known}
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS], env=environment, capture_output=True, text=True, timeout=60
    )

    assert "reached\n" == done.stdout, done.stderr[-2000:]
