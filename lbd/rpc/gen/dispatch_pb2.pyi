from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoredSpec(_message.Message):
    __slots__ = ("run_request", "input", "output", "error", "submitted")
    RUN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    run_request: bytes
    input: bytes
    output: bytes
    error: bytes
    submitted: float
    def __init__(self, run_request: _Optional[bytes] = ..., input: _Optional[bytes] = ..., output: _Optional[bytes] = ..., error: _Optional[bytes] = ..., submitted: _Optional[float] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("job", "attempt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("number", "slots", "open_slots", "load", "drained", "held")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    OPEN_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    number: int
    slots: int
    open_slots: int
    load: float
    drained: bool
    held: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, number: _Optional[int] = ..., slots: _Optional[int] = ..., open_slots: _Optional[int] = ..., load: _Optional[float] = ..., drained: _Optional[bool] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class News(_message.Message):
    __slots__ = ("job", "attempt", "event", "cause", "exit_status", "signal", "cpu_s", "reason", "stage", "errno")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    event: str
    cause: str
    exit_status: int
    signal: int
    cpu_s: float
    reason: str
    stage: str
    errno: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., event: _Optional[str] = ..., cause: _Optional[str] = ..., exit_status: _Optional[int] = ..., signal: _Optional[int] = ..., cpu_s: _Optional[float] = ..., reason: _Optional[str] = ..., stage: _Optional[str] = ..., errno: _Optional[int] = ...) -> None: ...

class WorkUp(_message.Message):
    __slots__ = ("beat", "news")
    BEAT_FIELD_NUMBER: _ClassVar[int]
    NEWS_FIELD_NUMBER: _ClassVar[int]
    beat: Beat
    news: _containers.RepeatedCompositeFieldContainer[News]
    def __init__(self, beat: _Optional[_Union[Beat, _Mapping]] = ..., news: _Optional[_Iterable[_Union[News, _Mapping]]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("job", "attempt", "tier", "cutoff_s", "anchor", "lease_s", "slots", "array_index", "spec")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    CUTOFF_S_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    tier: int
    cutoff_s: float
    anchor: int
    lease_s: float
    slots: int
    array_index: int
    spec: StoredSpec
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., tier: _Optional[int] = ..., cutoff_s: _Optional[float] = ..., anchor: _Optional[int] = ..., lease_s: _Optional[float] = ..., slots: _Optional[int] = ..., array_index: _Optional[int] = ..., spec: _Optional[_Union[StoredSpec, _Mapping]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("job", "attempt", "signal")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    signal: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., signal: _Optional[int] = ...) -> None: ...

class BeatReply(_message.Message):
    __slots__ = ("number", "lease_s", "renewed", "mode", "queued", "running")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    number: int
    lease_s: float
    renewed: _containers.RepeatedCompositeFieldContainer[Held]
    mode: str
    queued: int
    running: int
    def __init__(self, number: _Optional[int] = ..., lease_s: _Optional[float] = ..., renewed: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., mode: _Optional[str] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ...) -> None: ...

class WorkDown(_message.Message):
    __slots__ = ("reply", "starts", "stops", "settled")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    reply: BeatReply
    starts: _containers.RepeatedCompositeFieldContainer[Start]
    stops: _containers.RepeatedCompositeFieldContainer[Stop]
    settled: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, reply: _Optional[_Union[BeatReply, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., stops: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ..., settled: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("user", "origin", "name", "command", "spec", "slots", "may_restart", "only", "excluded", "key", "is_array", "first_index", "count")
    USER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    MAY_RESTART_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    IS_ARRAY_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    user: str
    origin: str
    name: str
    command: _containers.RepeatedScalarFieldContainer[bytes]
    spec: StoredSpec
    slots: int
    may_restart: bool
    only: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    key: str
    is_array: bool
    first_index: int
    count: int
    def __init__(self, user: _Optional[str] = ..., origin: _Optional[str] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[bytes]] = ..., spec: _Optional[_Union[StoredSpec, _Mapping]] = ..., slots: _Optional[int] = ..., may_restart: _Optional[bool] = ..., only: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., is_array: _Optional[bool] = ..., first_index: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("error", "first", "count")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    error: str
    first: int
    count: int
    def __init__(self, error: _Optional[str] = ..., first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class JobsAsked(_message.Message):
    __slots__ = ("selectors", "user", "ended_too", "with_attempts", "once_ended")
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ENDED_TOO_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ONCE_ENDED_FIELD_NUMBER: _ClassVar[int]
    selectors: _containers.RepeatedScalarFieldContainer[str]
    user: str
    ended_too: bool
    with_attempts: bool
    once_ended: bool
    def __init__(self, selectors: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., ended_too: _Optional[bool] = ..., with_attempts: _Optional[bool] = ..., once_ended: _Optional[bool] = ...) -> None: ...

class AttemptTold(_message.Message):
    __slots__ = ("number", "host", "tier", "state", "cutoff_s", "started", "finished", "cpu_s", "exit_status", "reason")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CUTOFF_S_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    number: int
    host: str
    tier: int
    state: str
    cutoff_s: float
    started: float
    finished: float
    cpu_s: float
    exit_status: int
    reason: str
    def __init__(self, number: _Optional[int] = ..., host: _Optional[str] = ..., tier: _Optional[int] = ..., state: _Optional[str] = ..., cutoff_s: _Optional[float] = ..., started: _Optional[float] = ..., finished: _Optional[float] = ..., cpu_s: _Optional[float] = ..., exit_status: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class JobTold(_message.Message):
    __slots__ = ("id", "name", "command", "user", "origin", "host", "state", "attempt", "tier", "exit_status", "submitted", "started", "finished", "cpu_s", "slots", "array_index", "reason", "signal", "cause", "is_final", "attempts")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    IS_FINAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    command: _containers.RepeatedScalarFieldContainer[bytes]
    user: str
    origin: str
    host: str
    state: str
    attempt: int
    tier: int
    exit_status: int
    submitted: float
    started: float
    finished: float
    cpu_s: float
    slots: int
    array_index: int
    reason: str
    signal: int
    cause: str
    is_final: bool
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptTold]
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[bytes]] = ..., user: _Optional[str] = ..., origin: _Optional[str] = ..., host: _Optional[str] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., tier: _Optional[int] = ..., exit_status: _Optional[int] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., finished: _Optional[float] = ..., cpu_s: _Optional[float] = ..., slots: _Optional[int] = ..., array_index: _Optional[int] = ..., reason: _Optional[str] = ..., signal: _Optional[int] = ..., cause: _Optional[str] = ..., is_final: _Optional[bool] = ..., attempts: _Optional[_Iterable[_Union[AttemptTold, _Mapping]]] = ...) -> None: ...

class JobsTold(_message.Message):
    __slots__ = ("error", "jobs")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    error: str
    jobs: _containers.RepeatedCompositeFieldContainer[JobTold]
    def __init__(self, error: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[JobTold, _Mapping]]] = ...) -> None: ...

class ActRequest(_message.Message):
    __slots__ = ("verb", "selectors", "user", "is_admin", "signal")
    VERB_FIELD_NUMBER: _ClassVar[int]
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    IS_ADMIN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    verb: str
    selectors: _containers.RepeatedScalarFieldContainer[str]
    user: str
    is_admin: bool
    signal: int
    def __init__(self, verb: _Optional[str] = ..., selectors: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., is_admin: _Optional[bool] = ..., signal: _Optional[int] = ...) -> None: ...

class ActReply(_message.Message):
    __slots__ = ("errors", "done")
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedScalarFieldContainer[str]
    done: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, errors: _Optional[_Iterable[str]] = ..., done: _Optional[_Iterable[int]] = ...) -> None: ...

class LogsRequest(_message.Message):
    __slots__ = ("job", "attempt", "output_at", "error_at", "follow")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_AT_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    output_at: int
    error_at: int
    follow: bool
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., output_at: _Optional[int] = ..., error_at: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogsPiece(_message.Message):
    __slots__ = ("output", "error", "trouble", "dropped_bytes", "output_at", "error_at")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_AT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    error: bytes
    trouble: str
    dropped_bytes: int
    output_at: int
    error_at: int
    def __init__(self, output: _Optional[bytes] = ..., error: _Optional[bytes] = ..., trouble: _Optional[str] = ..., dropped_bytes: _Optional[int] = ..., output_at: _Optional[int] = ..., error_at: _Optional[int] = ...) -> None: ...
