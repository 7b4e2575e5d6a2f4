from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StoredSpec(_message.Message):
    __slots__ = ("run_request", "input", "output", "error", "submitted", "checkpoint", "files", "notify", "append")
    RUN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    run_request: bytes
    input: bytes
    output: bytes
    error: bytes
    submitted: float
    checkpoint: bytes
    files: str
    notify: bytes
    append: bool
    def __init__(self, run_request: _Optional[bytes] = ..., input: _Optional[bytes] = ..., output: _Optional[bytes] = ..., error: _Optional[bytes] = ..., submitted: _Optional[float] = ..., checkpoint: _Optional[bytes] = ..., files: _Optional[str] = ..., notify: _Optional[bytes] = ..., append: _Optional[bool] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("job", "attempt", "stop_reason", "left_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    stop_reason: str
    left_s: float
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., stop_reason: _Optional[str] = ..., left_s: _Optional[float] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("number", "slots", "open_slots", "load", "held", "ahead", "features", "resources", "memory_for_jobs", "memory_given", "closed", "opens", "drain", "keeper", "said_s", "rules", "hog", "beside_hog", "no_room")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    OPEN_SLOTS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FOR_JOBS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GIVEN_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    OPENS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    KEEPER_FIELD_NUMBER: _ClassVar[int]
    SAID_S_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    HOG_FIELD_NUMBER: _ClassVar[int]
    BESIDE_HOG_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    number: int
    slots: int
    open_slots: int
    load: float
    held: _containers.RepeatedCompositeFieldContainer[Held]
    ahead: int
    features: str
    resources: str
    memory_for_jobs: int
    memory_given: int
    closed: int
    opens: float
    drain: str
    keeper: str
    said_s: float
    rules: int
    hog: str
    beside_hog: int
    no_room: str
    def __init__(self, number: _Optional[int] = ..., slots: _Optional[int] = ..., open_slots: _Optional[int] = ..., load: _Optional[float] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., ahead: _Optional[int] = ..., features: _Optional[str] = ..., resources: _Optional[str] = ..., memory_for_jobs: _Optional[int] = ..., memory_given: _Optional[int] = ..., closed: _Optional[int] = ..., opens: _Optional[float] = ..., drain: _Optional[str] = ..., keeper: _Optional[str] = ..., said_s: _Optional[float] = ..., rules: _Optional[int] = ..., hog: _Optional[str] = ..., beside_hog: _Optional[int] = ..., no_room: _Optional[str] = ...) -> None: ...

class AttemptReport(_message.Message):
    __slots__ = ("job", "attempt", "event", "cause", "exit_status", "signal", "cpu_s", "reason", "phase", "errno", "stop_reason", "at_s", "wait_s", "max_rss_bytes")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    event: str
    cause: str
    exit_status: int
    signal: int
    cpu_s: float
    reason: str
    phase: str
    errno: int
    stop_reason: str
    at_s: float
    wait_s: float
    max_rss_bytes: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., event: _Optional[str] = ..., cause: _Optional[str] = ..., exit_status: _Optional[int] = ..., signal: _Optional[int] = ..., cpu_s: _Optional[float] = ..., reason: _Optional[str] = ..., phase: _Optional[str] = ..., errno: _Optional[int] = ..., stop_reason: _Optional[str] = ..., at_s: _Optional[float] = ..., wait_s: _Optional[float] = ..., max_rss_bytes: _Optional[int] = ...) -> None: ...

class WorkUp(_message.Message):
    __slots__ = ("heartbeat", "reports", "sent_s")
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    SENT_S_FIELD_NUMBER: _ClassVar[int]
    heartbeat: Heartbeat
    reports: _containers.RepeatedCompositeFieldContainer[AttemptReport]
    sent_s: float
    def __init__(self, heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., reports: _Optional[_Iterable[_Union[AttemptReport, _Mapping]]] = ..., sent_s: _Optional[float] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("job", "attempt", "tier", "cutoff_s", "anchor", "lease_s", "slots", "array_index", "spec", "requeued", "origin", "user", "uid", "gang_hosts", "movable", "array")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    CUTOFF_S_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    REQUEUED_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GANG_HOSTS_FIELD_NUMBER: _ClassVar[int]
    MOVABLE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    tier: int
    cutoff_s: float
    anchor: int
    lease_s: float
    slots: int
    array_index: int
    spec: StoredSpec
    requeued: float
    origin: str
    user: str
    uid: int
    gang_hosts: _containers.RepeatedScalarFieldContainer[str]
    movable: bool
    array: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., tier: _Optional[int] = ..., cutoff_s: _Optional[float] = ..., anchor: _Optional[int] = ..., lease_s: _Optional[float] = ..., slots: _Optional[int] = ..., array_index: _Optional[int] = ..., spec: _Optional[_Union[StoredSpec, _Mapping]] = ..., requeued: _Optional[float] = ..., origin: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., gang_hosts: _Optional[_Iterable[str]] = ..., movable: _Optional[bool] = ..., array: _Optional[int] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("job", "attempt", "signal", "stop_reason")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    signal: int
    stop_reason: str
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ..., signal: _Optional[int] = ..., stop_reason: _Optional[str] = ...) -> None: ...

class HeartbeatReply(_message.Message):
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
    __slots__ = ("ledger_token", "reply", "starts", "stops", "settled", "released")
    LEDGER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ledger_token: bytes
    reply: HeartbeatReply
    starts: _containers.RepeatedCompositeFieldContainer[Start]
    stops: _containers.RepeatedCompositeFieldContainer[Stop]
    settled: _containers.RepeatedCompositeFieldContainer[Held]
    released: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, ledger_token: _Optional[bytes] = ..., reply: _Optional[_Union[HeartbeatReply, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., stops: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ..., settled: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., released: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("user", "origin", "name", "command", "spec", "slots", "may_restart", "only", "excluded", "key", "is_array", "first_index", "count", "slots_most", "priority", "uid", "target_s", "deadline", "gang", "parallelism", "sigma", "work_s", "indexes", "at_once", "after", "not_before", "is_admin", "needs")
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
    SLOTS_MOST_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    TARGET_S_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    IS_ADMIN_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
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
    slots_most: int
    priority: int
    uid: int
    target_s: float
    deadline: float
    gang: bool
    parallelism: float
    sigma: float
    work_s: float
    indexes: str
    at_once: int
    after: _containers.RepeatedScalarFieldContainer[str]
    not_before: float
    is_admin: bool
    needs: str
    def __init__(self, user: _Optional[str] = ..., origin: _Optional[str] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[bytes]] = ..., spec: _Optional[_Union[StoredSpec, _Mapping]] = ..., slots: _Optional[int] = ..., may_restart: _Optional[bool] = ..., only: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., is_array: _Optional[bool] = ..., first_index: _Optional[int] = ..., count: _Optional[int] = ..., slots_most: _Optional[int] = ..., priority: _Optional[int] = ..., uid: _Optional[int] = ..., target_s: _Optional[float] = ..., deadline: _Optional[float] = ..., gang: _Optional[bool] = ..., parallelism: _Optional[float] = ..., sigma: _Optional[float] = ..., work_s: _Optional[float] = ..., indexes: _Optional[str] = ..., at_once: _Optional[int] = ..., after: _Optional[_Iterable[str]] = ..., not_before: _Optional[float] = ..., is_admin: _Optional[bool] = ..., needs: _Optional[str] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("error", "first", "count", "warning", "is_other", "remark", "cancelled", "ledger_token")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    IS_OTHER_FIELD_NUMBER: _ClassVar[int]
    REMARK_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    LEDGER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    error: str
    first: int
    count: int
    warning: str
    is_other: bool
    remark: str
    cancelled: str
    ledger_token: bytes
    def __init__(self, error: _Optional[str] = ..., first: _Optional[int] = ..., count: _Optional[int] = ..., warning: _Optional[str] = ..., is_other: _Optional[bool] = ..., remark: _Optional[str] = ..., cancelled: _Optional[str] = ..., ledger_token: _Optional[bytes] = ...) -> None: ...

class JobsAsked(_message.Message):
    __slots__ = ("selectors", "user", "ended_too", "with_attempts", "once_ended", "unexplained", "uid", "by_array", "by_number", "some", "unforetold", "all_ended", "ended_since", "of_user")
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ENDED_TOO_FIELD_NUMBER: _ClassVar[int]
    WITH_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ONCE_ENDED_FIELD_NUMBER: _ClassVar[int]
    UNEXPLAINED_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    BY_ARRAY_FIELD_NUMBER: _ClassVar[int]
    BY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SOME_FIELD_NUMBER: _ClassVar[int]
    UNFORETOLD_FIELD_NUMBER: _ClassVar[int]
    ALL_ENDED_FIELD_NUMBER: _ClassVar[int]
    ENDED_SINCE_FIELD_NUMBER: _ClassVar[int]
    OF_USER_FIELD_NUMBER: _ClassVar[int]
    selectors: _containers.RepeatedScalarFieldContainer[str]
    user: str
    ended_too: bool
    with_attempts: bool
    once_ended: bool
    unexplained: bool
    uid: int
    by_array: bool
    by_number: bool
    some: bool
    unforetold: bool
    all_ended: bool
    ended_since: float
    of_user: str
    def __init__(self, selectors: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., ended_too: _Optional[bool] = ..., with_attempts: _Optional[bool] = ..., once_ended: _Optional[bool] = ..., unexplained: _Optional[bool] = ..., uid: _Optional[int] = ..., by_array: _Optional[bool] = ..., by_number: _Optional[bool] = ..., some: _Optional[bool] = ..., unforetold: _Optional[bool] = ..., all_ended: _Optional[bool] = ..., ended_since: _Optional[float] = ..., of_user: _Optional[str] = ...) -> None: ...

class AttemptInfo(_message.Message):
    __slots__ = ("number", "host", "tier", "state", "cutoff_s", "started", "finished", "cpu_s", "exit_status", "reason", "slots")
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
    SLOTS_FIELD_NUMBER: _ClassVar[int]
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
    slots: int
    def __init__(self, number: _Optional[int] = ..., host: _Optional[str] = ..., tier: _Optional[int] = ..., state: _Optional[str] = ..., cutoff_s: _Optional[float] = ..., started: _Optional[float] = ..., finished: _Optional[float] = ..., cpu_s: _Optional[float] = ..., exit_status: _Optional[int] = ..., reason: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class ArrayInfo(_message.Message):
    __slots__ = ("indexes", "tasks", "waiting", "at_once", "bad", "held", "held_indexes", "expected_end", "expected_low", "expected_high", "expected_by", "comparable", "is_rough", "count", "takes_turns")
    class TasksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    BAD_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HELD_INDEXES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LOW_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HIGH_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_BY_FIELD_NUMBER: _ClassVar[int]
    COMPARABLE_FIELD_NUMBER: _ClassVar[int]
    IS_ROUGH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TAKES_TURNS_FIELD_NUMBER: _ClassVar[int]
    indexes: str
    tasks: _containers.ScalarMap[str, int]
    waiting: str
    at_once: int
    bad: _containers.RepeatedCompositeFieldContainer[BadTaskInfo]
    held: int
    held_indexes: str
    expected_end: float
    expected_low: float
    expected_high: float
    expected_by: str
    comparable: int
    is_rough: bool
    count: int
    takes_turns: bool
    def __init__(self, indexes: _Optional[str] = ..., tasks: _Optional[_Mapping[str, int]] = ..., waiting: _Optional[str] = ..., at_once: _Optional[int] = ..., bad: _Optional[_Iterable[_Union[BadTaskInfo, _Mapping]]] = ..., held: _Optional[int] = ..., held_indexes: _Optional[str] = ..., expected_end: _Optional[float] = ..., expected_low: _Optional[float] = ..., expected_high: _Optional[float] = ..., expected_by: _Optional[str] = ..., comparable: _Optional[int] = ..., is_rough: _Optional[bool] = ..., count: _Optional[int] = ..., takes_turns: _Optional[bool] = ...) -> None: ...

class BadTaskInfo(_message.Message):
    __slots__ = ("index", "state", "exit_status", "signal", "cause", "reason")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    index: int
    state: str
    exit_status: int
    signal: int
    cause: str
    reason: str
    def __init__(self, index: _Optional[int] = ..., state: _Optional[str] = ..., exit_status: _Optional[int] = ..., signal: _Optional[int] = ..., cause: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class TargetInfo(_message.Message):
    __slots__ = ("by", "is_deadline", "expected_end", "expected_low", "expected_high", "at_once", "running", "left", "why")
    BY_FIELD_NUMBER: _ClassVar[int]
    IS_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_END_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_LOW_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_HIGH_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    by: float
    is_deadline: bool
    expected_end: float
    expected_low: float
    expected_high: float
    at_once: int
    running: int
    left: int
    why: str
    def __init__(self, by: _Optional[float] = ..., is_deadline: _Optional[bool] = ..., expected_end: _Optional[float] = ..., expected_low: _Optional[float] = ..., expected_high: _Optional[float] = ..., at_once: _Optional[int] = ..., running: _Optional[int] = ..., left: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class JobInfo(_message.Message):
    __slots__ = ("id", "name", "command", "user", "origin", "host", "state", "attempt", "tier", "exit_status", "submitted", "started", "finished", "cpu_s", "slots", "array_index", "reason", "signal", "cause", "is_final", "attempts", "slots_most", "priority", "predicted_wait_s", "predicted_by", "uid", "target", "slots_least", "gang", "speedup", "predicted_low_s", "predicted_high_s", "comparable", "array_id", "array", "given", "needs", "foretold_s", "foretold_low_s", "foretold_high_s", "foretold_is_rough", "max_rss_bytes")
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
    SLOTS_MOST_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_BY_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    SLOTS_LEAST_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_LOW_S_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    COMPARABLE_FIELD_NUMBER: _ClassVar[int]
    ARRAY_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_LOW_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    FORETOLD_IS_ROUGH_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
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
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptInfo]
    slots_most: int
    priority: int
    predicted_wait_s: float
    predicted_by: str
    uid: int
    target: TargetInfo
    slots_least: int
    gang: int
    speedup: SpeedupInfo
    predicted_low_s: float
    predicted_high_s: float
    comparable: int
    array_id: int
    array: ArrayInfo
    given: GivenInfo
    needs: str
    foretold_s: float
    foretold_low_s: float
    foretold_high_s: float
    foretold_is_rough: bool
    max_rss_bytes: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[bytes]] = ..., user: _Optional[str] = ..., origin: _Optional[str] = ..., host: _Optional[str] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., tier: _Optional[int] = ..., exit_status: _Optional[int] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., finished: _Optional[float] = ..., cpu_s: _Optional[float] = ..., slots: _Optional[int] = ..., array_index: _Optional[int] = ..., reason: _Optional[str] = ..., signal: _Optional[int] = ..., cause: _Optional[str] = ..., is_final: _Optional[bool] = ..., attempts: _Optional[_Iterable[_Union[AttemptInfo, _Mapping]]] = ..., slots_most: _Optional[int] = ..., priority: _Optional[int] = ..., predicted_wait_s: _Optional[float] = ..., predicted_by: _Optional[str] = ..., uid: _Optional[int] = ..., target: _Optional[_Union[TargetInfo, _Mapping]] = ..., slots_least: _Optional[int] = ..., gang: _Optional[int] = ..., speedup: _Optional[_Union[SpeedupInfo, _Mapping]] = ..., predicted_low_s: _Optional[float] = ..., predicted_high_s: _Optional[float] = ..., comparable: _Optional[int] = ..., array_id: _Optional[int] = ..., array: _Optional[_Union[ArrayInfo, _Mapping]] = ..., given: _Optional[_Union[GivenInfo, _Mapping]] = ..., needs: _Optional[str] = ..., foretold_s: _Optional[float] = ..., foretold_low_s: _Optional[float] = ..., foretold_high_s: _Optional[float] = ..., foretold_is_rough: _Optional[bool] = ..., max_rss_bytes: _Optional[int] = ...) -> None: ...

class GivenInfo(_message.Message):
    __slots__ = ("directory", "output", "error", "timeout_s", "memory_bytes", "key", "may_restart", "begin", "submitted_in", "fetch", "notify")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MAY_RESTART_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_IN_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    directory: bytes
    output: bytes
    error: bytes
    timeout_s: float
    memory_bytes: int
    key: str
    may_restart: bool
    begin: float
    submitted_in: bytes
    fetch: _containers.RepeatedScalarFieldContainer[bytes]
    notify: bytes
    def __init__(self, directory: _Optional[bytes] = ..., output: _Optional[bytes] = ..., error: _Optional[bytes] = ..., timeout_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., key: _Optional[str] = ..., may_restart: _Optional[bool] = ..., begin: _Optional[float] = ..., submitted_in: _Optional[bytes] = ..., fetch: _Optional[_Iterable[bytes]] = ..., notify: _Optional[bytes] = ...) -> None: ...

class SpeedupInfo(_message.Message):
    __slots__ = ("parallelism", "sigma", "work_s", "source", "runs", "parallelism_low", "parallelism_high", "sigma_low", "sigma_high", "noise")
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_LOW_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_HIGH_FIELD_NUMBER: _ClassVar[int]
    SIGMA_LOW_FIELD_NUMBER: _ClassVar[int]
    SIGMA_HIGH_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    parallelism: float
    sigma: float
    work_s: float
    source: str
    runs: int
    parallelism_low: float
    parallelism_high: float
    sigma_low: float
    sigma_high: float
    noise: float
    def __init__(self, parallelism: _Optional[float] = ..., sigma: _Optional[float] = ..., work_s: _Optional[float] = ..., source: _Optional[str] = ..., runs: _Optional[int] = ..., parallelism_low: _Optional[float] = ..., parallelism_high: _Optional[float] = ..., sigma_low: _Optional[float] = ..., sigma_high: _Optional[float] = ..., noise: _Optional[float] = ...) -> None: ...

class PredictAsked(_message.Message):
    __slots__ = ("slots", "slots_most", "parallelism", "sigma", "work_s", "user", "uid", "command", "calibration", "needs", "words", "only", "excluded")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_MOST_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    WORK_S_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    slots: int
    slots_most: int
    parallelism: float
    sigma: float
    work_s: float
    user: str
    uid: int
    command: str
    calibration: bool
    needs: str
    words: bytes
    only: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slots: _Optional[int] = ..., slots_most: _Optional[int] = ..., parallelism: _Optional[float] = ..., sigma: _Optional[float] = ..., work_s: _Optional[float] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., command: _Optional[str] = ..., calibration: _Optional[bool] = ..., needs: _Optional[str] = ..., words: _Optional[bytes] = ..., only: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ...) -> None: ...

class ChoiceInfo(_message.Message):
    __slots__ = ("slots", "begins_in_s", "begins_in_low_s", "begins_in_high_s", "runs_s")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    BEGINS_IN_S_FIELD_NUMBER: _ClassVar[int]
    BEGINS_IN_LOW_S_FIELD_NUMBER: _ClassVar[int]
    BEGINS_IN_HIGH_S_FIELD_NUMBER: _ClassVar[int]
    RUNS_S_FIELD_NUMBER: _ClassVar[int]
    slots: int
    begins_in_s: float
    begins_in_low_s: float
    begins_in_high_s: float
    runs_s: float
    def __init__(self, slots: _Optional[int] = ..., begins_in_s: _Optional[float] = ..., begins_in_low_s: _Optional[float] = ..., begins_in_high_s: _Optional[float] = ..., runs_s: _Optional[float] = ...) -> None: ...

class CalibrationInfo(_message.Message):
    __slots__ = ("jobs", "slope", "intercept", "cc_raw", "cc_corrected", "covered_90", "lately", "off_by", "intervals", "doubt", "short", "width")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SLOPE_FIELD_NUMBER: _ClassVar[int]
    INTERCEPT_FIELD_NUMBER: _ClassVar[int]
    CC_RAW_FIELD_NUMBER: _ClassVar[int]
    CC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    COVERED_90_FIELD_NUMBER: _ClassVar[int]
    LATELY_FIELD_NUMBER: _ClassVar[int]
    OFF_BY_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    DOUBT_FIELD_NUMBER: _ClassVar[int]
    SHORT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    jobs: int
    slope: float
    intercept: float
    cc_raw: float
    cc_corrected: float
    covered_90: float
    lately: int
    off_by: float
    intervals: int
    doubt: str
    short: int
    width: float
    def __init__(self, jobs: _Optional[int] = ..., slope: _Optional[float] = ..., intercept: _Optional[float] = ..., cc_raw: _Optional[float] = ..., cc_corrected: _Optional[float] = ..., covered_90: _Optional[float] = ..., lately: _Optional[int] = ..., off_by: _Optional[float] = ..., intervals: _Optional[int] = ..., doubt: _Optional[str] = ..., short: _Optional[int] = ..., width: _Optional[float] = ...) -> None: ...

class PredictInfo(_message.Message):
    __slots__ = ("wait_s", "how", "free", "choices", "picks", "warning", "comparable", "calibration", "speedup", "error", "guess", "runs_is_guess")
    class PicksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    PICKS_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    COMPARABLE_FIELD_NUMBER: _ClassVar[int]
    CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GUESS_FIELD_NUMBER: _ClassVar[int]
    RUNS_IS_GUESS_FIELD_NUMBER: _ClassVar[int]
    wait_s: float
    how: str
    free: int
    choices: _containers.RepeatedCompositeFieldContainer[ChoiceInfo]
    picks: _containers.ScalarMap[str, int]
    warning: str
    comparable: int
    calibration: CalibrationInfo
    speedup: SpeedupInfo
    error: str
    guess: str
    runs_is_guess: bool
    def __init__(self, wait_s: _Optional[float] = ..., how: _Optional[str] = ..., free: _Optional[int] = ..., choices: _Optional[_Iterable[_Union[ChoiceInfo, _Mapping]]] = ..., picks: _Optional[_Mapping[str, int]] = ..., warning: _Optional[str] = ..., comparable: _Optional[int] = ..., calibration: _Optional[_Union[CalibrationInfo, _Mapping]] = ..., speedup: _Optional[_Union[SpeedupInfo, _Mapping]] = ..., error: _Optional[str] = ..., guess: _Optional[str] = ..., runs_is_guess: _Optional[bool] = ...) -> None: ...

class JobsInfo(_message.Message):
    __slots__ = ("error", "jobs", "submitted", "absent", "ledger_token", "unlisted")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    LEDGER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNLISTED_FIELD_NUMBER: _ClassVar[int]
    error: str
    jobs: _containers.RepeatedCompositeFieldContainer[JobInfo]
    submitted: SubmitReply
    absent: _containers.RepeatedScalarFieldContainer[str]
    ledger_token: bytes
    unlisted: int
    def __init__(self, error: _Optional[str] = ..., jobs: _Optional[_Iterable[_Union[JobInfo, _Mapping]]] = ..., submitted: _Optional[_Union[SubmitReply, _Mapping]] = ..., absent: _Optional[_Iterable[str]] = ..., ledger_token: _Optional[bytes] = ..., unlisted: _Optional[int] = ...) -> None: ...

class ActRequest(_message.Message):
    __slots__ = ("verb", "selectors", "user", "is_admin", "signal", "uid", "cancels_waiting", "update", "by_number")
    VERB_FIELD_NUMBER: _ClassVar[int]
    SELECTORS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    IS_ADMIN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CANCELS_WAITING_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    BY_NUMBER_FIELD_NUMBER: _ClassVar[int]
    verb: str
    selectors: _containers.RepeatedScalarFieldContainer[str]
    user: str
    is_admin: bool
    signal: int
    uid: int
    cancels_waiting: bool
    update: Update
    by_number: bool
    def __init__(self, verb: _Optional[str] = ..., selectors: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., is_admin: _Optional[bool] = ..., signal: _Optional[int] = ..., uid: _Optional[int] = ..., cancels_waiting: _Optional[bool] = ..., update: _Optional[_Union[Update, _Mapping]] = ..., by_number: _Optional[bool] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("priority", "name", "timeout_s", "begin")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    priority: int
    name: str
    timeout_s: float
    begin: float
    def __init__(self, priority: _Optional[int] = ..., name: _Optional[str] = ..., timeout_s: _Optional[float] = ..., begin: _Optional[float] = ...) -> None: ...

class ActFailure(_message.Message):
    __slots__ = ("ids", "error")
    IDS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    error: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., error: _Optional[str] = ...) -> None: ...

class ActReply(_message.Message):
    __slots__ = ("errors", "done_ids", "still_open", "failures", "not_held", "ledger_token")
    class StillOpenEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    DONE_IDS_FIELD_NUMBER: _ClassVar[int]
    STILL_OPEN_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    NOT_HELD_FIELD_NUMBER: _ClassVar[int]
    LEDGER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.RepeatedScalarFieldContainer[str]
    done_ids: _containers.RepeatedScalarFieldContainer[str]
    still_open: _containers.ScalarMap[str, str]
    failures: _containers.RepeatedCompositeFieldContainer[ActFailure]
    not_held: _containers.RepeatedScalarFieldContainer[str]
    ledger_token: bytes
    def __init__(self, errors: _Optional[_Iterable[str]] = ..., done_ids: _Optional[_Iterable[str]] = ..., still_open: _Optional[_Mapping[str, str]] = ..., failures: _Optional[_Iterable[_Union[ActFailure, _Mapping]]] = ..., not_held: _Optional[_Iterable[str]] = ..., ledger_token: _Optional[bytes] = ...) -> None: ...

class StatusAsked(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HostTiers(_message.Message):
    __slots__ = ("host", "tiers")
    HOST_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    host: str
    tiers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, host: _Optional[str] = ..., tiers: _Optional[_Iterable[int]] = ...) -> None: ...

class StatusInfo(_message.Message):
    __slots__ = ("mode", "queued", "running", "tiers", "closed", "in_file", "full", "no_room")
    class NoRoomEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODE_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    IN_FILE_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    NO_ROOM_FIELD_NUMBER: _ClassVar[int]
    mode: str
    queued: int
    running: int
    tiers: _containers.RepeatedCompositeFieldContainer[HostTiers]
    closed: bool
    in_file: bool
    full: str
    no_room: _containers.ScalarMap[str, str]
    def __init__(self, mode: _Optional[str] = ..., queued: _Optional[int] = ..., running: _Optional[int] = ..., tiers: _Optional[_Iterable[_Union[HostTiers, _Mapping]]] = ..., closed: _Optional[bool] = ..., in_file: _Optional[bool] = ..., full: _Optional[str] = ..., no_room: _Optional[_Mapping[str, str]] = ...) -> None: ...

class TagsAsked(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TierInfo(_message.Message):
    __slots__ = ("tier", "cutoff_s", "hosts", "slots", "waiting", "running", "load", "wait_s", "visit_share", "slowdown")
    TIER_FIELD_NUMBER: _ClassVar[int]
    CUTOFF_S_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    VISIT_SHARE_FIELD_NUMBER: _ClassVar[int]
    SLOWDOWN_FIELD_NUMBER: _ClassVar[int]
    tier: int
    cutoff_s: float
    hosts: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    waiting: int
    running: int
    load: float
    wait_s: float
    visit_share: float
    slowdown: float
    def __init__(self, tier: _Optional[int] = ..., cutoff_s: _Optional[float] = ..., hosts: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ..., load: _Optional[float] = ..., wait_s: _Optional[float] = ..., visit_share: _Optional[float] = ..., slowdown: _Optional[float] = ...) -> None: ...

class FitInfo(_message.Message):
    __slots__ = ("k", "p", "alpha", "jobs", "ks_distance", "by", "mean_s", "fitted_mean_s", "arrival_rate_per_s", "pace", "good")
    K_FIELD_NUMBER: _ClassVar[int]
    P_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    KS_DISTANCE_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    MEAN_S_FIELD_NUMBER: _ClassVar[int]
    FITTED_MEAN_S_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    GOOD_FIELD_NUMBER: _ClassVar[int]
    k: float
    p: float
    alpha: float
    jobs: int
    ks_distance: float
    by: str
    mean_s: float
    fitted_mean_s: float
    arrival_rate_per_s: float
    pace: float
    good: bool
    def __init__(self, k: _Optional[float] = ..., p: _Optional[float] = ..., alpha: _Optional[float] = ..., jobs: _Optional[int] = ..., ks_distance: _Optional[float] = ..., by: _Optional[str] = ..., mean_s: _Optional[float] = ..., fitted_mean_s: _Optional[float] = ..., arrival_rate_per_s: _Optional[float] = ..., pace: _Optional[float] = ..., good: _Optional[bool] = ...) -> None: ...

class TagsChange(_message.Message):
    __slots__ = ("at", "what")
    AT_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    at: float
    what: str
    def __init__(self, at: _Optional[float] = ..., what: _Optional[str] = ...) -> None: ...

class TagsInfo(_message.Message):
    __slots__ = ("mode", "source", "objective", "cutoffs_s", "tiers", "reason", "looked", "changes", "fit", "load", "mean_slowdown", "mean_waiting_s", "one_queue", "work_conserving")
    MODE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    CUTOFFS_S_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOOKED_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    FIT_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MEAN_SLOWDOWN_FIELD_NUMBER: _ClassVar[int]
    MEAN_WAITING_S_FIELD_NUMBER: _ClassVar[int]
    ONE_QUEUE_FIELD_NUMBER: _ClassVar[int]
    WORK_CONSERVING_FIELD_NUMBER: _ClassVar[int]
    mode: str
    source: str
    objective: str
    cutoffs_s: _containers.RepeatedScalarFieldContainer[float]
    tiers: _containers.RepeatedCompositeFieldContainer[TierInfo]
    reason: str
    looked: float
    changes: _containers.RepeatedCompositeFieldContainer[TagsChange]
    fit: FitInfo
    load: float
    mean_slowdown: float
    mean_waiting_s: float
    one_queue: float
    work_conserving: bool
    def __init__(self, mode: _Optional[str] = ..., source: _Optional[str] = ..., objective: _Optional[str] = ..., cutoffs_s: _Optional[_Iterable[float]] = ..., tiers: _Optional[_Iterable[_Union[TierInfo, _Mapping]]] = ..., reason: _Optional[str] = ..., looked: _Optional[float] = ..., changes: _Optional[_Iterable[_Union[TagsChange, _Mapping]]] = ..., fit: _Optional[_Union[FitInfo, _Mapping]] = ..., load: _Optional[float] = ..., mean_slowdown: _Optional[float] = ..., mean_waiting_s: _Optional[float] = ..., one_queue: _Optional[float] = ..., work_conserving: _Optional[bool] = ...) -> None: ...

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

class FilesRequest(_message.Message):
    __slots__ = ("name", "job", "attempt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: str
    attempt: int
    def __init__(self, name: _Optional[str] = ..., job: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class FilesPiece(_message.Message):
    __slots__ = ("data", "trouble")
    DATA_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    trouble: str
    def __init__(self, data: _Optional[bytes] = ..., trouble: _Optional[str] = ...) -> None: ...

class LogsPiece(_message.Message):
    __slots__ = ("output", "error", "trouble", "dropped_bytes", "output_at", "error_at", "cut")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_AT_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    error: bytes
    trouble: str
    dropped_bytes: int
    output_at: int
    error_at: int
    cut: bool
    def __init__(self, output: _Optional[bytes] = ..., error: _Optional[bytes] = ..., trouble: _Optional[str] = ..., dropped_bytes: _Optional[int] = ..., output_at: _Optional[int] = ..., error_at: _Optional[int] = ..., cut: _Optional[bool] = ...) -> None: ...
