"""channel.py: reaching a server, and making sure it is the right one."""

from contextlib import nullcontext

import grpc
import pytest
from stacks import listening

from kvstore.client.channel import Target, connected, local_pids, server_status, target_of
from kvstore.client.errors import ServerNotReached
from kvstore.server import serving
from kvstore.v1 import server_status_pb2 as pb
from kvstore.v1 import server_status_pb2_grpc


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("127.0.0.1", "an address is host:port, such as 127.0.0.1:40123"),
        ("localhost:-1", "an address is host:port"),
        (40123, "what `with serving"),
        (serving(), "this server was not started: write `with serving"),
    ],
)
def test_what_is_no_server_is_refused_with_what_would_be(server, says):
    with pytest.raises(ValueError, match=says):
        target_of(server)


def test_a_connection_tells_what_the_server_says_of_itself(quick_server):
    with connected(target_of(quick_server)) as (_, report):
        assert quick_server.identity == report.identity
        assert [quick_server.pid] == local_pids(report, Target(quick_server.address))


class Dropping(server_status_pb2_grpc.ServerStatusServiceServicer):
    """Ends the first requests as a gRPC server does when too many calls wait for it."""

    def __init__(self, dropped):
        self.dropped = dropped

    def GetServerStatus(self, request, context):
        self.dropped -= 1
        if self.dropped >= 0:
            context.abort(grpc.StatusCode.CANCELLED, "")
        return pb.GetServerStatusResponse(identity="the third")


@pytest.mark.parametrize(("dropped", "found"), [(2, "the third"), (10_000, None)])
def test_a_request_that_a_busy_server_drops_is_made_again(dropped, found):
    add = server_status_pb2_grpc.add_ServerStatusServiceServicer_to_server
    last = "CANCELLED|DEADLINE_EXCEEDED"  # of a request that time ended, or before it
    ends = nullcontext() if found else pytest.raises(ServerNotReached, match=last)
    with (
        listening(lambda server: add(Dropping(dropped), server)) as address,
        grpc.insecure_channel(address) as open_channel,
        ends,
    ):
        report = server_status(open_channel, Target(address), 5.0 if found else 0.3)
        assert found == report.identity
