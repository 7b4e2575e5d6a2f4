from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class JoinRequest(_message.Message):
    __slots__ = ("host", "request", "version")
    HOST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    host: str
    request: bytes
    version: str
    def __init__(self, host: _Optional[str] = ..., request: _Optional[bytes] = ..., version: _Optional[str] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("cluster", "authority_host", "certificates", "revocations")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_HOST_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    authority_host: str
    certificates: bytes
    revocations: bytes
    def __init__(self, cluster: _Optional[str] = ..., authority_host: _Optional[str] = ..., certificates: _Optional[bytes] = ..., revocations: _Optional[bytes] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("request", "proof")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    request: bytes
    proof: bytes
    def __init__(self, request: _Optional[bytes] = ..., proof: _Optional[bytes] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ("certificates",)
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    certificates: bytes
    def __init__(self, certificates: _Optional[bytes] = ...) -> None: ...

class RevocationUpdate(_message.Message):
    __slots__ = ("signed",)
    SIGNED_FIELD_NUMBER: _ClassVar[int]
    signed: bytes
    def __init__(self, signed: _Optional[bytes] = ...) -> None: ...
