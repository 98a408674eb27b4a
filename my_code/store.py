"""My store: a gRPC service that answers Create, Retrieve, Update and Delete."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from my_code import kvstore_pb2 as pb
from my_code.kvstore_pb2_grpc import (
    KeyValueServiceServicer,
    add_KeyValueServiceServicer_to_server,
)


class OneLock(KeyValueServiceServicer):
    """A dictionary behind one lock. A sleep stands for the disk."""

    def __init__(self):
        self.values, self.lock = {}, threading.Lock()
        self.read_s, self.write_s = 0.010, 0.050

    def Create(self, request, context):
        with self.lock:
            time.sleep(self.write_s)
            if request.key in self.values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self.values[request.key] = request.value
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        with self.lock:
            time.sleep(self.read_s)
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        with self.lock:
            time.sleep(self.write_s)
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            self.values[request.key] = request.value
        return pb.UpdateResponse()

    def Delete(self, request, context):
        with self.lock:
            time.sleep(self.write_s)
            self.values.pop(request.key, None)
        return pb.DeleteResponse()


# The course's version: yours takes its place when it has passed its check.
class Store(KeyValueServiceServicer):
    """A dictionary behind one lock, which no call holds while the disk works."""

    def __init__(self):
        self.values, self.lock = {}, threading.Lock()
        self.read_s, self.write_s = 0.010, 0.050

    def Create(self, request, context):
        time.sleep(self.write_s)
        with self.lock:
            if request.key in self.values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self.values[request.key] = request.value
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        time.sleep(self.read_s)
        with self.lock:
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self.values[request.key])

    def Update(self, request, context):
        time.sleep(self.write_s)
        with self.lock:
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            self.values[request.key] = request.value
        return pb.UpdateResponse()

    def Delete(self, request, context):
        time.sleep(self.write_s)
        with self.lock:
            self.values.pop(request.key, None)
        return pb.DeleteResponse()


# The course's version: yours takes its place when it has passed its check.
class Once(Store):
    """A store whose Create may be sent twice with one "request-id"."""

    def __init__(self):
        super().__init__()
        self.created_by = {}

    def Create(self, request, context):
        request_id = dict(context.invocation_metadata()).get("request-id")
        time.sleep(self.write_s)
        with self.lock:
            if request.key in self.values:
                if request_id is None or self.created_by.get(request.key) != request_id:
                    context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            else:
                self.values[request.key] = request.value
                self.created_by[request.key] = request_id
        return pb.CreateResponse()


def serve(store, threads=128, port=0):
    """Serve the store on this machine only; return the server and its port."""
    server = grpc.server(ThreadPoolExecutor(threads), options=[("grpc.so_reuseport", 0)])
    add_KeyValueServiceServicer_to_server(store, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port
