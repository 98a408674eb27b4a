"""Clients of other makes, run against the server that we measure.

programs    where they are, how to get them, and an end to their time
beside      what one of their runs showed, with the server's own count of answers
h2load      the load generator of nghttp2, and its table
ghz         a load generator written in Go
together    one of them beside each of our runs
scenarios   connections and streams as h2load's users sweep them
"""

from kvstore.course.peers.beside import PeerRun
from kvstore.course.peers.ghz import ghz
from kvstore.course.peers.h2load import h2load
from kvstore.course.peers.programs import NotInstalled, PeerFailed, found
from kvstore.course.peers.scenarios import SCENARIOS, Scenario
from kvstore.course.peers.together import PROGRAMS, beside

__all__ = [
    "PROGRAMS",
    "SCENARIOS",
    "NotInstalled",
    "PeerFailed",
    "PeerRun",
    "Scenario",
    "beside",
    "found",
    "ghz",
    "h2load",
]
