"""A key-value service over gRPC, made to be measured.

    v1        messages and stubs, written by protoc
    client    how calls are made and recorded
    server    the servers that are measured
    measure   what a run has measured
    model     what a model predicts
    course    what the learner sees

Besides: `protocol` (what client and server share), `credentials` (a certificate and a token),
`subprocesses` (processes and folders that end with their parent), `flags` (command lines made from
dataclasses), `grpc_environment` (what gRPC reads in the environment), `gc_control` (the garbage
collector).
"""

from kvstore import grpc_environment

__version__ = "1.0.0"

grpc_environment.quiet_log()
grpc_environment.call_this_machine_directly()
