"""What a server tells of itself: its count of operations, and its status report."""

import gc
import json
import os
import threading

import grpc

from kvstore.gc_control import watched_collector
from kvstore.protocol import CREATE, DELETE, NOT_FOUND, OK, RETRIEVE, STATUSES
from kvstore.server import ServerSettings
from kvstore.server.__main__ import ServerStatusService
from kvstore.server.counts import Counts
from kvstore.server.steps import STATUS_CODE
from kvstore.v1 import server_status_pb2 as pb


def test_operations_are_counted_by_kind_and_status():
    counts = Counts()
    counts.add(CREATE, OK)
    counts.add(RETRIEVE, NOT_FOUND)
    counts.add_columns(bytes([CREATE, DELETE]), bytes([OK, OK]))

    counts.add_columns(b"\x00\x63", b"\x03\x03")

    assert {
        "create/OK": 2, "retrieve/NOT_FOUND": 1, "delete/OK": 1,
        "kind 0/INVALID_ARGUMENT": 1, "kind 99/INVALID_ARGUMENT": 1,
    } == counts.by_name()  # fmt: skip


def test_threads_that_count_at_once_lose_nothing():
    counts = Counts()
    together = threading.Barrier(6)

    def count() -> None:
        together.wait()
        for _ in range(500):
            counts.add(CREATE, OK)
            counts.add_columns(bytes([DELETE] * 2), bytes(2))

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {"create/OK": 3_000, "delete/OK": 6_000} == counts.by_name()


def test_every_status_has_its_code():
    assert {code.value[0]: code for code in grpc.StatusCode} == STATUS_CODE
    assert all(STATUSES[number] == code.name for number, code in STATUS_CODE.items())


def test_the_answer_names_server_settings_and_counts():
    counts = Counts()
    counts.add(CREATE, OK)
    settings = ServerSettings(locking="per_key", threads=7)

    class Caller:
        def peer(self) -> str:
            return "ipv4:127.0.0.1:7"

    with watched_collector() as collector:
        service = ServerStatusService(settings, "a word", counts, collector)
        gc.collect()
        report = service.GetServerStatus(pb.GetServerStatusRequest(), Caller())

    assert ("a word", os.getpid()) == (report.identity, report.process_id)
    assert settings == ServerSettings(**json.loads(report.settings_json))
    assert {"create/OK": 1} == dict(report.operations)
    assert grpc.__version__ == report.versions["grpcio"]
    assert "ipv4:127.0.0.1:7" == report.peer
    assert report.cpu_user_s > 0
    assert report.collections[-1].full >= 1
    assert report.collections[-1].pause_s > 0
