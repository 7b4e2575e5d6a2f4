from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Handover(_message.Message):
    __slots__ = ("version", "needs", "descriptors", "listener", "incoming", "outgoing", "clients", "ending", "attempts")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    LISTENER_FIELD_NUMBER: _ClassVar[int]
    INCOMING_FIELD_NUMBER: _ClassVar[int]
    OUTGOING_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    needs: int
    descriptors: int
    listener: int
    incoming: _containers.RepeatedCompositeFieldContainer[HeldIncoming]
    outgoing: _containers.RepeatedCompositeFieldContainer[HeldOutgoing]
    clients: _containers.RepeatedCompositeFieldContainer[HeldClient]
    ending: _containers.RepeatedCompositeFieldContainer[HeldJob]
    attempts: _containers.RepeatedCompositeFieldContainer[HeldAttempt]
    def __init__(self, version: _Optional[int] = ..., needs: _Optional[int] = ..., descriptors: _Optional[int] = ..., listener: _Optional[int] = ..., incoming: _Optional[_Iterable[_Union[HeldIncoming, _Mapping]]] = ..., outgoing: _Optional[_Iterable[_Union[HeldOutgoing, _Mapping]]] = ..., clients: _Optional[_Iterable[_Union[HeldClient, _Mapping]]] = ..., ending: _Optional[_Iterable[_Union[HeldJob, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[HeldAttempt, _Mapping]]] = ...) -> None: ...

class HeldSource(_message.Message):
    __slots__ = ("descriptor", "under_way", "delivered", "window", "read", "last_chance", "errno", "number")
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    LAST_CHANCE_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    descriptor: int
    under_way: int
    delivered: int
    window: int
    read: int
    last_chance: bool
    errno: int
    number: int
    def __init__(self, descriptor: _Optional[int] = ..., under_way: _Optional[int] = ..., delivered: _Optional[int] = ..., window: _Optional[int] = ..., read: _Optional[int] = ..., last_chance: _Optional[bool] = ..., errno: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class HeldSink(_message.Message):
    __slots__ = ("descriptor", "queue", "ended", "written", "unreported", "reported", "acknowledge", "errno", "gone", "taken", "number")
    DESCRIPTOR_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    UNREPORTED_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    descriptor: int
    queue: _containers.RepeatedScalarFieldContainer[bytes]
    ended: bool
    written: int
    unreported: int
    reported: int
    acknowledge: int
    errno: int
    gone: bool
    taken: int
    number: int
    def __init__(self, descriptor: _Optional[int] = ..., queue: _Optional[_Iterable[bytes]] = ..., ended: _Optional[bool] = ..., written: _Optional[int] = ..., unreported: _Optional[int] = ..., reported: _Optional[int] = ..., acknowledge: _Optional[int] = ..., errno: _Optional[int] = ..., gone: _Optional[bool] = ..., taken: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class HeldPty(_message.Message):
    __slots__ = ("master", "device", "given", "last_typed")
    MASTER_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    LAST_TYPED_FIELD_NUMBER: _ClassVar[int]
    master: int
    device: int
    given: bytes
    last_typed: bytes
    def __init__(self, master: _Optional[int] = ..., device: _Optional[int] = ..., given: _Optional[bytes] = ..., last_typed: _Optional[bytes] = ...) -> None: ...

class HeldEnds(_message.Message):
    __slots__ = ("input", "outputs", "pty", "screen", "behind", "input_device", "input_inode")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    PTY_FIELD_NUMBER: _ClassVar[int]
    SCREEN_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    INPUT_DEVICE_FIELD_NUMBER: _ClassVar[int]
    INPUT_INODE_FIELD_NUMBER: _ClassVar[int]
    input: HeldSink
    outputs: _containers.RepeatedCompositeFieldContainer[HeldSource]
    pty: HeldPty
    screen: bool
    behind: bool
    input_device: int
    input_inode: int
    def __init__(self, input: _Optional[_Union[HeldSink, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[HeldSource, _Mapping]]] = ..., pty: _Optional[_Union[HeldPty, _Mapping]] = ..., screen: _Optional[bool] = ..., behind: _Optional[bool] = ..., input_device: _Optional[int] = ..., input_inode: _Optional[int] = ...) -> None: ...

class HeldExit(_message.Message):
    __slots__ = ("wait_status", "user_cpu_s", "system_cpu_s", "max_rss_bytes", "out_of_memory", "over")
    WAIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    USER_CPU_S_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUT_OF_MEMORY_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    wait_status: int
    user_cpu_s: float
    system_cpu_s: float
    max_rss_bytes: int
    out_of_memory: bool
    over: str
    def __init__(self, wait_status: _Optional[int] = ..., user_cpu_s: _Optional[float] = ..., system_cpu_s: _Optional[float] = ..., max_rss_bytes: _Optional[int] = ..., out_of_memory: _Optional[bool] = ..., over: _Optional[str] = ...) -> None: ...

class HeldJob(_message.Message):
    __slots__ = ("number", "request", "pid", "group", "note", "began_s", "cause", "stopped", "kill_at_s", "exit", "ends", "submitted", "started", "job", "slots")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    BEGAN_S_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    KILL_AT_S_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    request: bytes
    pid: int
    group: str
    note: str
    began_s: float
    cause: str
    stopped: bool
    kill_at_s: float
    exit: HeldExit
    ends: HeldEnds
    submitted: float
    started: float
    job: str
    slots: int
    def __init__(self, number: _Optional[int] = ..., request: _Optional[bytes] = ..., pid: _Optional[int] = ..., group: _Optional[str] = ..., note: _Optional[str] = ..., began_s: _Optional[float] = ..., cause: _Optional[str] = ..., stopped: _Optional[bool] = ..., kill_at_s: _Optional[float] = ..., exit: _Optional[_Union[HeldExit, _Mapping]] = ..., ends: _Optional[_Union[HeldEnds, _Mapping]] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., job: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class HeldAttempt(_message.Message):
    __slots__ = ("start", "pid", "group", "began_s", "cause", "reason", "lease_until_s", "end", "started", "stage", "wish", "told_to_end")
    START_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    BEGAN_S_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_S_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    TOLD_TO_END_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    pid: int
    group: str
    began_s: float
    cause: str
    reason: str
    lease_until_s: float
    end: bytes
    started: float
    stage: bytes
    wish: str
    told_to_end: int
    def __init__(self, start: _Optional[bytes] = ..., pid: _Optional[int] = ..., group: _Optional[str] = ..., began_s: _Optional[float] = ..., cause: _Optional[str] = ..., reason: _Optional[str] = ..., lease_until_s: _Optional[float] = ..., end: _Optional[bytes] = ..., started: _Optional[float] = ..., stage: _Optional[bytes] = ..., wish: _Optional[str] = ..., told_to_end: _Optional[int] = ...) -> None: ...

class HeldStage(_message.Message):
    __slots__ = ("number", "id", "origin", "user", "path")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    number: int
    id: str
    origin: str
    user: str
    path: bytes
    def __init__(self, number: _Optional[int] = ..., id: _Optional[str] = ..., origin: _Optional[str] = ..., user: _Optional[str] = ..., path: _Optional[bytes] = ...) -> None: ...

class HeldIncoming(_message.Message):
    __slots__ = ("caller", "token", "sent", "received", "unsent", "unread", "jobs", "stages", "claims", "last_number")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    UNSENT_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    caller: str
    token: str
    sent: int
    received: int
    unsent: _containers.RepeatedScalarFieldContainer[bytes]
    unread: _containers.RepeatedScalarFieldContainer[bytes]
    jobs: _containers.RepeatedCompositeFieldContainer[HeldJob]
    stages: _containers.RepeatedCompositeFieldContainer[HeldStage]
    claims: _containers.RepeatedScalarFieldContainer[str]
    last_number: int
    def __init__(self, caller: _Optional[str] = ..., token: _Optional[str] = ..., sent: _Optional[int] = ..., received: _Optional[int] = ..., unsent: _Optional[_Iterable[bytes]] = ..., unread: _Optional[_Iterable[bytes]] = ..., jobs: _Optional[_Iterable[_Union[HeldJob, _Mapping]]] = ..., stages: _Optional[_Iterable[_Union[HeldStage, _Mapping]]] = ..., claims: _Optional[_Iterable[str]] = ..., last_number: _Optional[int] = ...) -> None: ...

class HeldOutgoing(_message.Message):
    __slots__ = ("host", "address", "token", "last_number", "sent", "received", "unsent", "unread")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    UNSENT_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    host: str
    address: str
    token: str
    last_number: int
    sent: int
    received: int
    unsent: _containers.RepeatedScalarFieldContainer[bytes]
    unread: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, host: _Optional[str] = ..., address: _Optional[str] = ..., token: _Optional[str] = ..., last_number: _Optional[int] = ..., sent: _Optional[int] = ..., received: _Optional[int] = ..., unsent: _Optional[_Iterable[bytes]] = ..., unread: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HeldRun(_message.Message):
    __slots__ = ("token", "number", "host", "address", "screen", "following", "input", "outputs", "input_file", "typed", "asked_to_end", "has_exited", "ended")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SCREEN_FIELD_NUMBER: _ClassVar[int]
    FOLLOWING_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    INPUT_FILE_FIELD_NUMBER: _ClassVar[int]
    TYPED_FIELD_NUMBER: _ClassVar[int]
    ASKED_TO_END_FIELD_NUMBER: _ClassVar[int]
    HAS_EXITED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    token: str
    number: int
    host: str
    address: str
    screen: bool
    following: bool
    input: HeldSource
    outputs: _containers.RepeatedCompositeFieldContainer[HeldSink]
    input_file: int
    typed: int
    asked_to_end: bool
    has_exited: bool
    ended: bytes
    def __init__(self, token: _Optional[str] = ..., number: _Optional[int] = ..., host: _Optional[str] = ..., address: _Optional[str] = ..., screen: _Optional[bool] = ..., following: _Optional[bool] = ..., input: _Optional[_Union[HeldSource, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[HeldSink, _Mapping]]] = ..., input_file: _Optional[int] = ..., typed: _Optional[int] = ..., asked_to_end: _Optional[bool] = ..., has_exited: _Optional[bool] = ..., ended: _Optional[bytes] = ...) -> None: ...

class HeldClient(_message.Message):
    __slots__ = ("socket", "received", "descriptors", "request", "command", "terminal", "modes", "asked_for_ends", "has_ends", "ends", "ready")
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    MODES_FIELD_NUMBER: _ClassVar[int]
    ASKED_FOR_ENDS_FIELD_NUMBER: _ClassVar[int]
    HAS_ENDS_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    socket: int
    received: bytes
    descriptors: _containers.RepeatedScalarFieldContainer[int]
    request: bytes
    command: HeldCommand
    terminal: int
    modes: bytes
    asked_for_ends: bool
    has_ends: bool
    ends: _containers.RepeatedScalarFieldContainer[int]
    ready: bool
    def __init__(self, socket: _Optional[int] = ..., received: _Optional[bytes] = ..., descriptors: _Optional[_Iterable[int]] = ..., request: _Optional[bytes] = ..., command: _Optional[_Union[HeldCommand, _Mapping]] = ..., terminal: _Optional[int] = ..., modes: _Optional[bytes] = ..., asked_for_ends: _Optional[bool] = ..., has_ends: _Optional[bool] = ..., ends: _Optional[_Iterable[int]] = ..., ready: _Optional[bool] = ...) -> None: ...

class HeldCommand(_message.Message):
    __slots__ = ("job", "submitted", "started", "reason", "host", "address", "charged", "asked_lim", "excluded", "process", "stays", "run", "stage", "kept", "begun", "capped")
    JOB_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    ASKED_LIM_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    STAYS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    CAPPED_FIELD_NUMBER: _ClassVar[int]
    job: str
    submitted: float
    started: float
    reason: str
    host: str
    address: str
    charged: bool
    asked_lim: bool
    excluded: _containers.RepeatedScalarFieldContainer[str]
    process: int
    stays: bool
    run: HeldRun
    stage: HeldRun
    kept: str
    begun: bool
    capped: bool
    def __init__(self, job: _Optional[str] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., reason: _Optional[str] = ..., host: _Optional[str] = ..., address: _Optional[str] = ..., charged: _Optional[bool] = ..., asked_lim: _Optional[bool] = ..., excluded: _Optional[_Iterable[str]] = ..., process: _Optional[int] = ..., stays: _Optional[bool] = ..., run: _Optional[_Union[HeldRun, _Mapping]] = ..., stage: _Optional[_Union[HeldRun, _Mapping]] = ..., kept: _Optional[str] = ..., begun: _Optional[bool] = ..., capped: _Optional[bool] = ...) -> None: ...
