from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OperationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATION_KIND_UNSPECIFIED: _ClassVar[OperationKind]
    OPERATION_KIND_CREATE: _ClassVar[OperationKind]
    OPERATION_KIND_RETRIEVE: _ClassVar[OperationKind]
    OPERATION_KIND_UPDATE: _ClassVar[OperationKind]
    OPERATION_KIND_DELETE: _ClassVar[OperationKind]
OPERATION_KIND_UNSPECIFIED: OperationKind
OPERATION_KIND_CREATE: OperationKind
OPERATION_KIND_RETRIEVE: OperationKind
OPERATION_KIND_UPDATE: OperationKind
OPERATION_KIND_DELETE: OperationKind

class CreateRequest(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class CreateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RetrieveRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class RetrieveResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class DeleteResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PipelineRequest(_message.Message):
    __slots__ = ("id", "kinds", "keys", "values")
    ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    id: int
    kinds: bytes
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    values: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, id: _Optional[int] = ..., kinds: _Optional[bytes] = ..., keys: _Optional[_Iterable[bytes]] = ..., values: _Optional[_Iterable[bytes]] = ...) -> None: ...

class PipelineResponse(_message.Message):
    __slots__ = ("id", "statuses", "values", "detail", "station_times")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    STATION_TIMES_FIELD_NUMBER: _ClassVar[int]
    id: int
    statuses: bytes
    values: _containers.RepeatedScalarFieldContainer[bytes]
    detail: str
    station_times: StationTimes
    def __init__(self, id: _Optional[int] = ..., statuses: _Optional[bytes] = ..., values: _Optional[_Iterable[bytes]] = ..., detail: _Optional[str] = ..., station_times: _Optional[_Union[StationTimes, _Mapping]] = ...) -> None: ...

class StationTimes(_message.Message):
    __slots__ = ("pool_s", "lock_s", "disk_s", "rest_s")
    POOL_S_FIELD_NUMBER: _ClassVar[int]
    LOCK_S_FIELD_NUMBER: _ClassVar[int]
    DISK_S_FIELD_NUMBER: _ClassVar[int]
    REST_S_FIELD_NUMBER: _ClassVar[int]
    pool_s: float
    lock_s: float
    disk_s: float
    rest_s: float
    def __init__(self, pool_s: _Optional[float] = ..., lock_s: _Optional[float] = ..., disk_s: _Optional[float] = ..., rest_s: _Optional[float] = ...) -> None: ...
