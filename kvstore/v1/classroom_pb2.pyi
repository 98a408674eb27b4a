from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JoinRequest(_message.Message):
    __slots__ = ("word", "voter_secret", "name")
    WORD_FIELD_NUMBER: _ClassVar[int]
    VOTER_SECRET_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    word: str
    voter_secret: bytes
    name: str
    def __init__(self, word: _Optional[str] = ..., voter_secret: _Optional[bytes] = ..., name: _Optional[str] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("joined",)
    JOINED_FIELD_NUMBER: _ClassVar[int]
    joined: int
    def __init__(self, joined: _Optional[int] = ...) -> None: ...

class Ballot(_message.Message):
    __slots__ = ("sequence", "question_id", "value", "choice", "unit", "age_s")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    question_id: str
    value: float
    choice: str
    unit: str
    age_s: float
    def __init__(self, sequence: _Optional[int] = ..., question_id: _Optional[str] = ..., value: _Optional[float] = ..., choice: _Optional[str] = ..., unit: _Optional[str] = ..., age_s: _Optional[float] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("voter_secret", "ballots")
    VOTER_SECRET_FIELD_NUMBER: _ClassVar[int]
    BALLOTS_FIELD_NUMBER: _ClassVar[int]
    voter_secret: bytes
    ballots: _containers.RepeatedCompositeFieldContainer[Ballot]
    def __init__(self, voter_secret: _Optional[bytes] = ..., ballots: _Optional[_Iterable[_Union[Ballot, _Mapping]]] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("kept", "refused")
    KEPT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    refused: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kept: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[int]] = ...) -> None: ...
