from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Handover(_message.Message):
    __slots__ = ("version", "needs", "descriptors", "listener", "links_from", "links_to", "attached", "attempts", "clients", "jobs", "unrecorded")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    LINKS_FROM_FIELD_NUMBER: _ClassVar[int]
    LINKS_TO_FIELD_NUMBER: _ClassVar[int]
    ATTACHED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    UNRECORDED_FIELD_NUMBER: _ClassVar[int]
    version: int
    needs: int
    descriptors: int
    listener: int
    links_from: _containers.RepeatedCompositeFieldContainer[HeldValue]
    links_to: _containers.RepeatedCompositeFieldContainer[HeldValue]
    attached: _containers.RepeatedCompositeFieldContainer[HeldValue]
    attempts: _containers.RepeatedCompositeFieldContainer[HeldValue]
    clients: _containers.RepeatedCompositeFieldContainer[HeldValue]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    unrecorded: HeldValue
    def __init__(self, version: _Optional[int] = ..., needs: _Optional[int] = ..., descriptors: _Optional[int] = ..., listener: _Optional[int] = ..., links_from: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ..., links_to: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ..., attached: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ..., clients: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ..., jobs: _Optional[_Iterable[str]] = ..., unrecorded: _Optional[_Union[HeldValue, _Mapping]] = ...) -> None: ...

class HeldValue(_message.Message):
    __slots__ = ("none", "flag", "number", "real", "data", "text", "items", "record", "descriptor")
    NONE_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    none: bool
    flag: bool
    number: int
    real: float
    data: bytes
    text: bytes
    items: HeldItems
    record: HeldRecord
    descriptor: int
    def __init__(self, none: _Optional[bool] = ..., flag: _Optional[bool] = ..., number: _Optional[int] = ..., real: _Optional[float] = ..., data: _Optional[bytes] = ..., text: _Optional[bytes] = ..., items: _Optional[_Union[HeldItems, _Mapping]] = ..., record: _Optional[_Union[HeldRecord, _Mapping]] = ..., descriptor: _Optional[int] = ...) -> None: ...

class HeldItems(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[HeldValue]
    def __init__(self, items: _Optional[_Iterable[_Union[HeldValue, _Mapping]]] = ...) -> None: ...

class HeldRecord(_message.Message):
    __slots__ = ("name", "fields")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    fields: _containers.RepeatedCompositeFieldContainer[HeldField]
    def __init__(self, name: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[HeldField, _Mapping]]] = ...) -> None: ...

class HeldField(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: HeldValue
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[HeldValue, _Mapping]] = ...) -> None: ...
