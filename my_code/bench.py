"""My bench: start my store in a process of its own, run a client, print calls/s.

python -m my_code.bench bounded 100
"""

import itertools
import multiprocessing
import sys
import threading
import time

import grpc

from my_code import clients
from my_code import kvstore_pb2 as pb
from my_code.kvstore_pb2_grpc import KeyValueServiceStub
from my_code.store import Store, serve


class Counter(grpc.UnaryUnaryClientInterceptor):
    """Counts the calls of a channel by their status. A failed call is not throughput."""

    def __init__(self):
        self.ok = self.failed = 0
        self.lock = threading.Lock()

    def intercept_unary_unary(self, continuation, details, request):
        call = continuation(details, request)
        call.add_done_callback(self.ended)
        return call

    def ended(self, call):
        with self.lock:
            if call.code() is grpc.StatusCode.OK:
                self.ok += 1
            else:
                self.failed += 1


def for_seconds(requests, seconds):
    """Hand out requests until the time is over."""
    end = time.perf_counter() + seconds
    for request in requests:
        if time.perf_counter() > end:
            return
        yield request


def bench(client, address, *limit, seconds=5.0):
    """Run the client; return the calls answered OK, those that failed, and the seconds it took."""
    counter = Counter()
    with grpc.insecure_channel(address) as channel:
        stub = KeyValueServiceStub(grpc.intercept_channel(channel, counter))
        setup = KeyValueServiceStub(channel)
        setup.Create(pb.CreateRequest(key=b"cup", value=b"tea"), wait_for_ready=True)
        reads = itertools.repeat(pb.RetrieveRequest(key=b"cup"))
        began = time.perf_counter()
        client(stub, for_seconds(reads, seconds), *limit)
        took = time.perf_counter() - began
    return counter.ok, counter.failed, took


def serve_until_told(ports, stop):
    """Serve my store; this function runs in a process of its own."""
    server, port = serve(Store())
    ports.put(port)
    stop.wait()
    server.stop(0)


CLIENTS = {each.__name__: each for each in (clients.blocking, clients.send_all, clients.bounded)}


def main():
    name, *limit = sys.argv[1:] or ["blocking"]
    if name not in CLIENTS or len(limit) != (name == "bounded"):
        sys.exit("usage: python -m my_code.bench blocking | send_all | bounded 100")
    spawn = multiprocessing.get_context("spawn")
    ports, stop = spawn.Queue(), spawn.Event()
    process = spawn.Process(target=serve_until_told, args=(ports, stop), daemon=True)
    process.start()
    try:
        address = f"127.0.0.1:{ports.get(timeout=30)}"
        ok, failed, took = bench(CLIENTS[name], address, *map(int, limit))
    finally:
        stop.set()
        process.join(5)
    print(f"{name}: {ok / took:,.1f} calls/s ({ok:,} answered, {failed:,} failed, {took:.1f} s)")


if __name__ == "__main__":
    main()
