"""A server that is killed in the middle of its work: what it had answered, and what is left.

Each caller creates one key after another and writes down what was answered OK. What was under
way at the end is unknown: it may be there or not. What was answered must be there.
"""

import itertools
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from kvstore.client.channel import connected, target_of
from kvstore.client.client import Client
from kvstore.client.workload import create, retrieve
from kvstore.server import Server

DEADLINE_S = 10.0


def killed_at_work(server: Server, *, answers: int, callers: int = 8) -> dict[bytes, bytes]:
    """Create keys until `answers` of them were answered OK, and kill the server at that moment.

    Return key and value of every create that was answered OK, before and after the blow fell.
    """
    acknowledged: dict[bytes, bytes] = {}
    enough = threading.Event()

    def work(client: Client, caller: int) -> None:
        try:
            for number in itertools.count():
                operation = create(b"%d/%d" % (caller, number), b"%d" % number)
                if client.call(operation).status != "OK":
                    return
                acknowledged[operation.key] = operation.value
                if len(acknowledged) >= answers:
                    enough.set()
        finally:
            enough.set()  # who comes to an end otherwise leaves nobody waiting

    target = target_of(server)
    with connected(target) as (channel, _), ThreadPoolExecutor(callers) as pool:
        client = Client(channel, target.address, deadline_s=DEADLINE_S)
        running = [pool.submit(work, client, caller) for caller in range(callers)]
        try:
            enough.wait()
        finally:  # interrupted, too: nobody is left who would go on creating keys
            server.kill()
    for caller in running:
        caller.result()
    return acknowledged


def still_there(server: Server, acknowledged: Mapping[bytes, bytes]) -> int:
    """How many of these keys the server knows, with the value that was acknowledged."""
    target = target_of(server)
    with connected(target) as (channel, _):
        client = Client(channel, target.address, deadline_s=DEADLINE_S)
        return sum(client.call(retrieve(key)).value == acknowledged[key] for key in acknowledged)
