"""codes.py: words and codes agree with gRPC and with the contract."""

import grpc

from kvstore import codes
from kvstore.v1 import kvstore_pb2 as pb


def test_every_status_of_grpc_has_its_code():
    for code in grpc.StatusCode:
        assert code.name == codes.STATUSES[code.value[0]]


def test_one_status_is_ours():
    assert ("NO_ANSWER",) == codes.STATUSES[len(grpc.StatusCode) :]
    assert "NO_ANSWER" == codes.STATUSES[codes.NO_ANSWER]


def test_the_named_codes_are_those_of_the_list():
    for name in ("OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"):
        assert name == codes.STATUSES[getattr(codes, name)]


def test_kinds_are_numbered_as_in_the_contract():
    """A pipeline's request carries them as they are."""
    for name in ("create", "retrieve", "update", "delete"):
        in_contract = pb.OperationKind.Value(f"OPERATION_KIND_{name.upper()}")

        assert in_contract == codes.KINDS.index(name) == getattr(codes, name.upper())
