"""Whether a server whose process cannot be watched can still be reached."""

import math
import socket

import numpy as np
import numpy.typing as npt

from kvstore.client.channel import Target
from kvstore.client.client import Client
from kvstore.codes import UNAVAILABLE

UNREACHED_S = 1.0
"""Seconds with no end but UNAVAILABLE before a run asks whether anyone listens at all."""
CONNECT_S = 0.5


class Reach:
    """Looks at how calls end, to tell a server that refuses from one that is not there.

    A call that finds nobody ends at once, and the strategy sends the next one: without
    this, a run would make calls to nobody until its time is up. Of several servers each is
    looked at by itself: the answers of one say nothing of another.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._seen = 0
        self._addresses = [shard.address for shard in Target(address).shards]
        self._only_unavailable_since_s = [math.nan] * len(self._addresses)

    def lost(self) -> bool:
        """Whether calls to a server have only been UNAVAILABLE for a while, and nobody listens.

        A server may refuse calls with this status and be well, and so may one that
        restarts; so its address is tried as well.
        """
        new = self._client.recorder.since(self._seen)
        self._seen += len(new)
        return any(
            self._is_lost(number, of_one) for number, of_one in enumerate(self._by_server(new))
        )

    def _is_lost(self, number: int, new: npt.NDArray[np.void]) -> bool:
        since_s = self._only_unavailable_since_s[number]
        others = np.flatnonzero(new["status"] != UNAVAILABLE)
        if len(others):
            since_s = math.nan
            new = new[others[-1] + 1 :]
        if len(new) and math.isnan(since_s):
            since_s = float(new["done_s"][0])
        now_s = self._client.now_s()
        ask = now_s - since_s >= UNREACHED_S
        # Should someone listen: ask again after a while.
        self._only_unavailable_since_s[number] = now_s if ask else since_s
        return ask and not _listens(self._addresses[number])

    def unavailable_at_last(self) -> bool:
        """Whether the last call to end at one of the servers found nobody, as when it is gone."""
        records = self._client.recorder.array()
        return any(
            len(of_one) > 0 and of_one["status"][-1] == UNAVAILABLE
            for of_one in self._by_server(records)
        )

    def silent(self) -> list[str]:
        """The addresses where no connection is accepted now."""
        return [address for address in self._addresses if not _listens(address)]

    def _by_server(self, records: npt.NDArray[np.void]) -> list[npt.NDArray[np.void]]:
        """The calls to each server: connection i leads to server i modulo their number."""
        count = len(self._addresses)
        if count == 1:
            return [records]
        return [records[records["connection"] % count == number] for number in range(count)]


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
            return True
    except OSError:
        return False
