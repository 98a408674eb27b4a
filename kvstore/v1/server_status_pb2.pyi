from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetServerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerStatusResponse(_message.Message):
    __slots__ = ("identity", "host_name", "process_id", "settings_json", "operations", "cpu_user_s", "cpu_system_s", "versions", "peer", "loop_cpu_s", "attempts")
    class OperationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    HOST_NAME_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    CPU_USER_S_FIELD_NUMBER: _ClassVar[int]
    CPU_SYSTEM_S_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    LOOP_CPU_S_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    identity: str
    host_name: str
    process_id: int
    settings_json: str
    operations: _containers.ScalarMap[str, int]
    cpu_user_s: float
    cpu_system_s: float
    versions: _containers.ScalarMap[str, str]
    peer: str
    loop_cpu_s: float
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, identity: _Optional[str] = ..., host_name: _Optional[str] = ..., process_id: _Optional[int] = ..., settings_json: _Optional[str] = ..., operations: _Optional[_Mapping[str, int]] = ..., cpu_user_s: _Optional[float] = ..., cpu_system_s: _Optional[float] = ..., versions: _Optional[_Mapping[str, str]] = ..., peer: _Optional[str] = ..., loop_cpu_s: _Optional[float] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("call", "before", "arrived_s", "ended_s")
    CALL_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    call: str
    before: int
    arrived_s: float
    ended_s: float
    def __init__(self, call: _Optional[str] = ..., before: _Optional[int] = ..., arrived_s: _Optional[float] = ..., ended_s: _Optional[float] = ...) -> None: ...
