"""A key-value service over gRPC, made to be measured.

    v1        messages and stubs, written by protoc
    client    how calls are made
    server    what is measured
    measure   what happened
    model     what should happen
    course    what the learner sees

Beside them: `lifeline` (child processes that end with their parent), `event_loop`,
`garbage` (the collector, kept quiet), `collector` (what it did meanwhile), `awake` (cores, kept
from sleeping), `shards` (who keeps a key), `wire` (what both ends tell gRPC), and the words:
`codes` (kinds of operation, how calls end) and `stations` (where the server spends its time).
"""

__version__ = "0.1.0"
