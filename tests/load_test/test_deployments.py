"""What stands between a load test and its service: each has the right figures, or a line."""

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import hostile
import pytest
from relay import relaying

from kvstore.load_test.__main__ import main

QUICK = ["--no-calibration", "--calls=5", "--quiet"]
DO = ["evil.Evil/Do", *QUICK]
ECHO = """
syntax = "proto3"; package echo;
message Message { bytes data = 1; }
service Echo { rpc Do (Message) returns (Message); }
"""


class OnlyHttp1(http.server.BaseHTTPRequestHandler):
    """Answers gRPC's preface as a proxy does that knows HTTP/1.1 only."""

    protocol_version = "HTTP/1.1"

    def do_PRI(self):
        self.send_error(505)

    def log_message(self, *_):
        pass


@contextmanager
def http1(context: ssl.SSLContext | None = None) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OnlyHttp1) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def error(capsys, status: int, *arguments) -> str:
    assert status == main([str(each) for each in arguments])
    errors = capsys.readouterr().err
    assert 1 == len(errors.splitlines())
    return errors


def test_a_proxy_that_speaks_http_1_is_named(capsys):
    with http1() as port:
        assert "HTTP/1" in error(capsys, 3, f"127.0.0.1:{port}", *DO)


def test_metadata_beyond_the_limit_of_the_server_is_named(capsys, tmp_path):
    secret = tmp_path / "secret.txt"
    with hostile.serving(lambda name: [hostile.file_of_service()]) as address:
        secret.write_text("x" * 4000)
        small = main([address, *DO, f"--metadata=x=@{secret}"])
        capsys.readouterr()
        secret.write_text("x" * 17_000)
        large = error(capsys, 2, address, *DO, f"--metadata=x=@{secret}")

    assert 0 == small
    assert "grpc.max_metadata_size" in large


@contextmanager
def echo(*options: tuple[str, int]) -> Iterator[str]:
    class Same(grpc.GenericRpcHandler):
        def service(self, details):
            if details.method == "/echo.Echo/Do":
                return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
            return None

    with hostile.answering(Same(), options=options) as address:
        yield address


@pytest.mark.slow
def test_a_message_of_five_megabytes_names_the_limit_that_it_reached(capsys, tmp_path):
    source, request = tmp_path / "echo.proto", tmp_path / "request.json"
    source.write_text(ECHO)
    request.write_text(json.dumps({"data": base64.b64encode(bytes(5_000_000)).decode()}))
    big = ["echo.Echo/Do", *QUICK, f"--proto={source}", f"--json=@{request}"]
    with echo() as address:
        of_server = error(capsys, 3, address, *big)
    with echo(("grpc.max_receive_message_length", -1)) as address:
        of_client = error(capsys, 3, address, *big)
        status = main([address, *big, "--max-message-bytes=-1"])

    assert "the limit is the server's" in of_server
    assert "--max-message-bytes" in of_client
    assert 0 == status


@pytest.mark.slow
def test_connections_that_the_server_ends_by_age_lose_no_call(capsys):
    age = (("grpc.max_connection_age_ms", 300), ("grpc.max_connection_age_grace_ms", 500))
    calls = ["--seconds=2s", "--in-flight=8", "--no-calibration", "--quiet", "--output=json"]
    with hostile.serving(lambda name: [hostile.file_of_service()], options=age) as address:
        status = main([address, "evil.Evil/Do", *calls])
    run = json.loads(capsys.readouterr().out)["run"]

    assert 0 == status
    assert {"OK"} == {*run["statuses"]}, run["statuses"]


def test_the_time_of_a_run_begins_when_a_slow_connection_is_ready(capsys):
    with (
        hostile.serving(lambda name: [hostile.file_of_service()]) as address,
        relaying(address) as relay,
    ):
        relay.on_accept = lambda client: time.sleep(1.5) is None
        status = main(
            [relay.address, "evil.Evil/Do", *QUICK[::2], "--seconds=0.5s", "--output=csv"]
        )
    rows = capsys.readouterr().out.splitlines()

    assert 0 == status
    assert len(rows) > 1
