"""A key-value service over gRPC, made to be measured.

    v1        messages and stubs, written by protoc
    client    how calls are made and recorded
    server    the servers that are measured
    measure   what a run has measured
    model     what a model predicts
    judge     the unknown service of the capstone, and its score
    course    what the learner sees

Besides: `protocol` (what client and server share), `credentials` (a certificate and a token),
`subprocesses` (processes and folders that end with their parent), `flags` (command lines made from
dataclasses), `transport` (gRPC's settings for a process), `gc_control` (the garbage collector),
`cpu_idle` (cores that are kept from idle states).
"""

from kvstore import transport

__version__ = "0.1.0"

transport.choose()
transport.quiet_log()
transport.call_this_machine_directly()
