"""Whether a server whose process cannot be watched can still be reached."""

import math
import socket

import numpy as np

from kvstore.client.client import Client
from kvstore.codes import UNAVAILABLE

UNREACHED_S = 1.0
"""Seconds with no end but UNAVAILABLE before a run asks whether anyone listens at all."""
CONNECT_S = 0.5


class Reach:
    """Looks at how calls end, to tell a server that refuses from one that is not there.

    A call that finds nobody ends at once, and the strategy sends the next one: without
    this, a run would make calls to nobody until its time is up.
    """

    def __init__(self, client: Client, address: str) -> None:
        self._client = client
        self._address = address
        self._seen = 0
        self._only_unavailable_since_s = math.nan

    def lost(self) -> bool:
        """Whether calls have only been UNAVAILABLE for a while, and nobody listens.

        A server may refuse calls with this status and be well, and so may one that
        restarts; so the address is tried as well.
        """
        new = self._client.recorder.since(self._seen)
        self._seen += len(new)
        others = np.flatnonzero(new["status"] != UNAVAILABLE)
        if len(others):
            self._only_unavailable_since_s = math.nan
            new = new[others[-1] + 1 :]
        if len(new) and math.isnan(self._only_unavailable_since_s):
            self._only_unavailable_since_s = float(new["done_s"][0])
        now_s = self._client.now_s()
        if not now_s - self._only_unavailable_since_s >= UNREACHED_S:
            return False
        self._only_unavailable_since_s = now_s  # should someone listen: ask again after a while
        return not self.anyone_listens()

    def anyone_listens(self) -> bool:
        """Whether a connection to the address is accepted now."""
        host, _, port = self._address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
                return True
        except OSError:
            return False
