"""protocol.py: codes agree with gRPC and the contract, shards are even, station times arrive."""

import math
from collections import Counter

import grpc
import pytest

from kvstore import protocol
from kvstore.protocol import StationClock, StationTimes, generator_of, shard_of
from kvstore.v1 import kvstore_pb2 as pb


def test_every_status_of_grpc_has_its_code():
    for code in grpc.StatusCode:
        assert code.name == protocol.STATUSES[code.value[0]]


def test_kinds_are_numbered_as_in_the_contract():
    """A pipeline's request carries them as they are."""
    for name in ("create", "retrieve", "update", "delete"):
        in_contract = pb.OperationKind.Value(f"OPERATION_KIND_{name.upper()}")

        assert in_contract == protocol.KINDS.index(name) == getattr(protocol, name.upper())


KEYS = [b"key %d" % number for number in range(20_000)]


def test_a_key_has_the_same_place_in_every_process():
    """Python's own hash is another one in each."""
    # CRC-32 of b"a key" is 0xB7937465 = 3079894117; its upper half is 0xB793 = 46995.
    assert (117, 995) == (shard_of(b"a key", 1000), generator_of(b"a key", 1000))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
@pytest.mark.parametrize("place", [shard_of, generator_of])
def test_keys_are_shared_out_evenly(place, count):
    counts = Counter(place(key, count) for key in KEYS)

    assert set(range(count)) == set(counts)
    assert min(counts.values()) > 0.9 * len(KEYS) / count


@pytest.fixture
def clock_at(monkeypatch):
    """Sets the time that a `StationClock` sees."""

    def at(now_s: float) -> None:
        monkeypatch.setattr(protocol.time, "perf_counter", lambda: now_s)

    return at


def test_a_request_passes_its_stations_one_after_the_other(clock_at):
    clock_at(10.0)
    clock = StationClock(waited_s=0.5)
    clock_at(12.0)
    clock.locked()
    clock_at(15.0)
    clock.worked()
    clock_at(15.25)

    assert StationTimes(pool_s=0.5, lock_s=2.0, disk_s=3.0, rest_s=0.25) == clock.times()


def test_several_operations_add_up_and_what_lies_between_is_the_rest(clock_at):
    clock_at(0.0)
    clock = StationClock()
    for start_s in (1.0, 5.0):  # a second on something else before each
        clock_at(start_s)
        clock.begin()
        clock_at(start_s + 1)
        clock.worked()
        clock_at(start_s + 3)
        clock.locked()
    clock_at(9.0)

    assert StationTimes(pool_s=0.0, lock_s=4.0, disk_s=2.0, rest_s=3.0) == clock.times()


def test_stations_arrive_as_they_were_sent():
    sent = StationTimes(0.0015, 0.25, 0.05, 0.0000001)
    metadata = (("other", "thing"), (protocol.METADATA_KEY, protocol.to_header(sent)))

    assert sent == pytest.approx(protocol.from_metadata(metadata), abs=1e-7)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "db;dur=fast",
        'cache;desc="a";dur=1',
    ],
)
def test_a_header_of_another_server_ends_no_run(header):
    """A proxy may add a Server-Timing of its own."""
    report = protocol.from_metadata(((protocol.METADATA_KEY, header),))

    assert all(math.isnan(time_s) for time_s in report)
