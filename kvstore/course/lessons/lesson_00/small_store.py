"""A complete servicer of the key-value service, short enough to be read in a lesson."""

import threading
import time

import grpc

from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1.kvstore_pb2_grpc import KeyValueServiceServicer


class SmallStore(KeyValueServiceServicer):
    """A dictionary behind one lock. A sleep stands for the disk."""

    def __init__(self, read_delay_s=0.010, write_delay_s=0.050):
        self.values, self.lock = {}, threading.Lock()
        self.read_delay_s, self.write_delay_s = read_delay_s, write_delay_s

    def Create(self, request, context):
        with self.lock:
            time.sleep(self.write_delay_s)
            if request.key in self.values:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "this key has a value")
            self.values[request.key] = request.value
        return pb.CreateResponse()

    def Retrieve(self, request, context):
        with self.lock:
            time.sleep(self.read_delay_s)
            if request.key not in self.values:
                context.abort(grpc.StatusCode.NOT_FOUND, "this key has no value")
            return pb.RetrieveResponse(value=self.values[request.key])
