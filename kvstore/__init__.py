"""A key-value service over gRPC, made to be measured.

    v1        messages and stubs, written by protoc
    client    how calls are made
    server    what is measured
    measure   what happened
    model     what should happen
    course    what the learner sees

Beside them: `lifeline` (child processes that end with their parent), `event_loop`,
`garbage` (the collector, kept quiet), `awake` (cores, kept from sleeping), `shards` (who keeps
a key) and `wire` (what both ends tell gRPC).
"""

__version__ = "0.1.0"
