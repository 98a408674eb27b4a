"""gRPC asks again by itself when its channel is told to; nobody sees the attempts.

gRFC A6. A policy allows five attempts at most, whatever it says: it is meant for a server that
is back in a moment, and not for one that has too much to do.

Keep `initialBackoff` at 10 ms or more. With 1 ms grpcio 1.85 never made the second attempt of about
half the calls, and these hung until their deadline; with 10 ms none of 20 did.
"""

import json
import secrets
from collections import Counter
from typing import Any, Final

import grpc

from kvstore.client.channel import OPTIONS, target_of
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

POLICY: Final[dict[str, Any]] = {
    "maxAttempts": 5,
    "initialBackoff": "0.05s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
}
"""What a method of a service config may say under "retryPolicy"."""

DEADLINE_S: Final = 10.0


def burst(server: object, calls: int, policy: dict[str, Any] | None = None) -> Counter[str]:
    """Create so many keys at once, with gRPC's own retries or with none; how the calls ended.

    `policy` is a retry policy such as `POLICY`; one call that gRPC made five times counts once.
    """
    options: list[tuple[str, Any]] = [*OPTIONS, ("grpc.enable_retries", int(policy is not None))]
    if policy is not None:
        config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
        options.append(("grpc.service_config", json.dumps(config)))
    address, salt = target_of(server).address, secrets.token_bytes(4)
    with grpc.insecure_channel(address, options=options) as channel:
        grpc.channel_ready_future(channel).result(DEADLINE_S)
        create = kvstore_pb2_grpc.KeyValueServiceStub(channel).Create
        sent = [
            create.future(pb.CreateRequest(key=salt + b"%d" % number), timeout=DEADLINE_S)
            for number in range(calls)
        ]
        return Counter(call.code().name for call in sent)
