from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunRequest(_message.Message):
    __slots__ = ("job_id", "origin", "user", "uid", "argv", "environment", "directory", "umask", "limits", "wants_stdin", "closed_fds", "timeout_s", "memory_bytes", "hops", "name", "forced", "nice", "directory_stamp", "ignored_signals", "no_new_privileges", "terminal", "joined_outputs", "may_restart", "null_outputs", "slots", "slots_most", "workdir", "needs", "excluded")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    ARGV_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    UMASK_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    WANTS_STDIN_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    NICE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_STAMP_FIELD_NUMBER: _ClassVar[int]
    IGNORED_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    NO_NEW_PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    JOINED_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    MAY_RESTART_FIELD_NUMBER: _ClassVar[int]
    NULL_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_MOST_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    origin: str
    user: str
    uid: int
    argv: _containers.RepeatedScalarFieldContainer[bytes]
    environment: _containers.RepeatedScalarFieldContainer[bytes]
    directory: bytes
    umask: int
    limits: _containers.RepeatedCompositeFieldContainer[ResourceLimit]
    wants_stdin: bool
    closed_fds: int
    timeout_s: float
    memory_bytes: int
    hops: int
    name: str
    forced: bool
    nice: int
    directory_stamp: DirectoryStamp
    ignored_signals: int
    no_new_privileges: bool
    terminal: Terminal
    joined_outputs: bool
    may_restart: bool
    null_outputs: int
    slots: int
    slots_most: int
    workdir: WorkdirStep
    needs: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., origin: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., argv: _Optional[_Iterable[bytes]] = ..., environment: _Optional[_Iterable[bytes]] = ..., directory: _Optional[bytes] = ..., umask: _Optional[int] = ..., limits: _Optional[_Iterable[_Union[ResourceLimit, _Mapping]]] = ..., wants_stdin: _Optional[bool] = ..., closed_fds: _Optional[int] = ..., timeout_s: _Optional[float] = ..., memory_bytes: _Optional[int] = ..., hops: _Optional[int] = ..., name: _Optional[str] = ..., forced: _Optional[bool] = ..., nice: _Optional[int] = ..., directory_stamp: _Optional[_Union[DirectoryStamp, _Mapping]] = ..., ignored_signals: _Optional[int] = ..., no_new_privileges: _Optional[bool] = ..., terminal: _Optional[_Union[Terminal, _Mapping]] = ..., joined_outputs: _Optional[bool] = ..., may_restart: _Optional[bool] = ..., null_outputs: _Optional[int] = ..., slots: _Optional[int] = ..., slots_most: _Optional[int] = ..., workdir: _Optional[_Union[WorkdirStep, _Mapping]] = ..., needs: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkdirRequest(_message.Message):
    __slots__ = ("id", "origin", "user", "uid", "forced", "slots")
    ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    origin: str
    user: str
    uid: int
    forced: bool
    slots: int
    def __init__(self, id: _Optional[str] = ..., origin: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., forced: _Optional[bool] = ..., slots: _Optional[int] = ...) -> None: ...

class WorkdirStep(_message.Message):
    __slots__ = ("id", "step", "send", "fetch")
    ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SEND_FIELD_NUMBER: _ClassVar[int]
    FETCH_FIELD_NUMBER: _ClassVar[int]
    id: str
    step: str
    send: _containers.RepeatedScalarFieldContainer[bytes]
    fetch: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, id: _Optional[str] = ..., step: _Optional[str] = ..., send: _Optional[_Iterable[bytes]] = ..., fetch: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DirectoryStamp(_message.Message):
    __slots__ = ("kernel", "device", "inode", "born_ns", "changed_ns", "file_system", "seen_ns")
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    INODE_FIELD_NUMBER: _ClassVar[int]
    BORN_NS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_NS_FIELD_NUMBER: _ClassVar[int]
    FILE_SYSTEM_FIELD_NUMBER: _ClassVar[int]
    SEEN_NS_FIELD_NUMBER: _ClassVar[int]
    kernel: str
    device: int
    inode: int
    born_ns: int
    changed_ns: int
    file_system: str
    seen_ns: int
    def __init__(self, kernel: _Optional[str] = ..., device: _Optional[int] = ..., inode: _Optional[int] = ..., born_ns: _Optional[int] = ..., changed_ns: _Optional[int] = ..., file_system: _Optional[str] = ..., seen_ns: _Optional[int] = ...) -> None: ...

class Terminal(_message.Message):
    __slots__ = ("size", "modes", "background", "stderr_apart", "ends_lines")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MODES_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    STDERR_APART_FIELD_NUMBER: _ClassVar[int]
    ENDS_LINES_FIELD_NUMBER: _ClassVar[int]
    size: bytes
    modes: bytes
    background: bool
    stderr_apart: bool
    ends_lines: bool
    def __init__(self, size: _Optional[bytes] = ..., modes: _Optional[bytes] = ..., background: _Optional[bool] = ..., stderr_apart: _Optional[bool] = ..., ends_lines: _Optional[bool] = ...) -> None: ...

class ResourceLimit(_message.Message):
    __slots__ = ("resource", "soft", "hard")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SOFT_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    resource: int
    soft: int
    hard: int
    def __init__(self, resource: _Optional[int] = ..., soft: _Optional[int] = ..., hard: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason", "try_another", "errno", "phase", "full")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TRY_ANOTHER_FIELD_NUMBER: _ClassVar[int]
    ERRNO_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    reason: str
    try_another: bool
    errno: int
    phase: str
    full: bool
    def __init__(self, reason: _Optional[str] = ..., try_another: _Optional[bool] = ..., errno: _Optional[int] = ..., phase: _Optional[str] = ..., full: _Optional[bool] = ...) -> None: ...

class CheckReply(_message.Message):
    __slots__ = ("able", "reason", "phase", "for_good")
    ABLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FOR_GOOD_FIELD_NUMBER: _ClassVar[int]
    able: bool
    reason: str
    phase: str
    for_good: bool
    def __init__(self, able: _Optional[bool] = ..., reason: _Optional[str] = ..., phase: _Optional[str] = ..., for_good: _Optional[bool] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("host", "pid", "note", "index", "slots")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    host: str
    pid: int
    note: str
    index: float
    slots: int
    def __init__(self, host: _Optional[str] = ..., pid: _Optional[int] = ..., note: _Optional[str] = ..., index: _Optional[float] = ..., slots: _Optional[int] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("exit_status", "signal", "cause", "user_cpu_s", "system_cpu_s", "max_rss_bytes", "wall_s", "input_taken_bytes", "reason", "heard_signals")
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    USER_CPU_S_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_CPU_S_FIELD_NUMBER: _ClassVar[int]
    MAX_RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    INPUT_TAKEN_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEARD_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    exit_status: int
    signal: int
    cause: str
    user_cpu_s: float
    system_cpu_s: float
    max_rss_bytes: int
    wall_s: float
    input_taken_bytes: int
    reason: str
    heard_signals: int
    def __init__(self, exit_status: _Optional[int] = ..., signal: _Optional[int] = ..., cause: _Optional[str] = ..., user_cpu_s: _Optional[float] = ..., system_cpu_s: _Optional[float] = ..., max_rss_bytes: _Optional[int] = ..., wall_s: _Optional[float] = ..., input_taken_bytes: _Optional[int] = ..., reason: _Optional[str] = ..., heard_signals: _Optional[int] = ...) -> None: ...

class JobRecord(_message.Message):
    __slots__ = ("id", "name", "command", "user", "origin", "host", "state", "attempt", "submitted", "started", "finished", "cpu_s", "exit_status", "reason", "pid", "directory", "number", "slots")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    EXIT_STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    command: _containers.RepeatedScalarFieldContainer[bytes]
    user: str
    origin: str
    host: str
    state: str
    attempt: int
    submitted: float
    started: float
    finished: float
    cpu_s: float
    exit_status: int
    reason: str
    pid: int
    directory: bytes
    number: int
    slots: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., command: _Optional[_Iterable[bytes]] = ..., user: _Optional[str] = ..., origin: _Optional[str] = ..., host: _Optional[str] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., submitted: _Optional[float] = ..., started: _Optional[float] = ..., finished: _Optional[float] = ..., cpu_s: _Optional[float] = ..., exit_status: _Optional[int] = ..., reason: _Optional[str] = ..., pid: _Optional[int] = ..., directory: _Optional[bytes] = ..., number: _Optional[int] = ..., slots: _Optional[int] = ...) -> None: ...

class CommandRequest(_message.Message):
    __slots__ = ("id", "verb", "user", "uid", "is_admin", "signal", "patience_s", "host")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    IS_ADMIN_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_S_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    id: str
    verb: str
    user: str
    uid: int
    is_admin: bool
    signal: int
    patience_s: float
    host: str
    def __init__(self, id: _Optional[str] = ..., verb: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., is_admin: _Optional[bool] = ..., signal: _Optional[int] = ..., patience_s: _Optional[float] = ..., host: _Optional[str] = ...) -> None: ...

class CommandReply(_message.Message):
    __slots__ = ("error", "code", "job", "open")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    error: str
    code: str
    job: JobRecord
    open: bool
    def __init__(self, error: _Optional[str] = ..., code: _Optional[str] = ..., job: _Optional[_Union[JobRecord, _Mapping]] = ..., open: _Optional[bool] = ...) -> None: ...

class PastRequest(_message.Message):
    __slots__ = ("user", "name", "states", "host", "since", "limit", "before", "before_number", "uid", "until", "ids")
    USER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    user: str
    name: str
    states: _containers.RepeatedScalarFieldContainer[str]
    host: str
    since: float
    limit: int
    before: float
    before_number: int
    uid: int
    until: float
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, user: _Optional[str] = ..., name: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., host: _Optional[str] = ..., since: _Optional[float] = ..., limit: _Optional[int] = ..., before: _Optional[float] = ..., before_number: _Optional[int] = ..., uid: _Optional[int] = ..., until: _Optional[float] = ..., ids: _Optional[_Iterable[str]] = ...) -> None: ...

class PastReply(_message.Message):
    __slots__ = ("jobs", "more", "withheld", "gaps", "goes_by_ids", "record_since")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    GOES_BY_IDS_FIELD_NUMBER: _ClassVar[int]
    RECORD_SINCE_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobRecord]
    more: bool
    withheld: str
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    goes_by_ids: bool
    record_since: float
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobRecord, _Mapping]]] = ..., more: _Optional[bool] = ..., withheld: _Optional[str] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ..., goes_by_ids: _Optional[bool] = ..., record_since: _Optional[float] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("commands", "since", "until", "not_yet")
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    NOT_YET_FIELD_NUMBER: _ClassVar[int]
    commands: int
    since: float
    until: float
    not_yet: bool
    def __init__(self, commands: _Optional[int] = ..., since: _Optional[float] = ..., until: _Optional[float] = ..., not_yet: _Optional[bool] = ...) -> None: ...

class JobsRequest(_message.Message):
    __slots__ = ("all", "user", "uid")
    ALL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    all: bool
    user: str
    uid: int
    def __init__(self, all: _Optional[bool] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ...) -> None: ...

class JobsReply(_message.Message):
    __slots__ = ("jobs", "withheld", "used")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobRecord]
    withheld: str
    used: _containers.RepeatedCompositeFieldContainer[CpuUsed]
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobRecord, _Mapping]]] = ..., withheld: _Optional[str] = ..., used: _Optional[_Iterable[_Union[CpuUsed, _Mapping]]] = ...) -> None: ...

class CpuUsed(_message.Message):
    __slots__ = ("job", "cpu_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    cpu_s: float
    def __init__(self, job: _Optional[str] = ..., cpu_s: _Optional[float] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ("since", "user", "uid", "until")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    since: float
    user: str
    uid: int
    until: float
    def __init__(self, since: _Optional[float] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., until: _Optional[float] = ...) -> None: ...

class StatsReply(_message.Message):
    __slots__ = ("all", "by_command", "by_user", "by_host", "trouble", "record_since", "algorithms", "gaps")
    ALL_FIELD_NUMBER: _ClassVar[int]
    BY_COMMAND_FIELD_NUMBER: _ClassVar[int]
    BY_USER_FIELD_NUMBER: _ClassVar[int]
    BY_HOST_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    RECORD_SINCE_FIELD_NUMBER: _ClassVar[int]
    ALGORITHMS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    all: Figures
    by_command: _containers.RepeatedCompositeFieldContainer[Figures]
    by_user: _containers.RepeatedCompositeFieldContainer[Figures]
    by_host: _containers.RepeatedCompositeFieldContainer[Figures]
    trouble: str
    record_since: float
    algorithms: _containers.RepeatedCompositeFieldContainer[AlgorithmSince]
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    def __init__(self, all: _Optional[_Union[Figures, _Mapping]] = ..., by_command: _Optional[_Iterable[_Union[Figures, _Mapping]]] = ..., by_user: _Optional[_Iterable[_Union[Figures, _Mapping]]] = ..., by_host: _Optional[_Iterable[_Union[Figures, _Mapping]]] = ..., trouble: _Optional[str] = ..., record_since: _Optional[float] = ..., algorithms: _Optional[_Iterable[_Union[AlgorithmSince, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ...) -> None: ...

class AlgorithmSince(_message.Message):
    __slots__ = ("since", "name")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    since: float
    name: str
    def __init__(self, since: _Optional[float] = ..., name: _Optional[str] = ...) -> None: ...

class Figures(_message.Message):
    __slots__ = ("key", "jobs", "failed", "moved", "wrong", "cpu_s", "response", "waiting", "slowdown", "slot_s")
    KEY_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    WRONG_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    SLOWDOWN_FIELD_NUMBER: _ClassVar[int]
    SLOT_S_FIELD_NUMBER: _ClassVar[int]
    key: str
    jobs: int
    failed: int
    moved: int
    wrong: int
    cpu_s: float
    response: Sums
    waiting: Sums
    slowdown: Sums
    slot_s: float
    def __init__(self, key: _Optional[str] = ..., jobs: _Optional[int] = ..., failed: _Optional[int] = ..., moved: _Optional[int] = ..., wrong: _Optional[int] = ..., cpu_s: _Optional[float] = ..., response: _Optional[_Union[Sums, _Mapping]] = ..., waiting: _Optional[_Union[Sums, _Mapping]] = ..., slowdown: _Optional[_Union[Sums, _Mapping]] = ..., slot_s: _Optional[float] = ...) -> None: ...

class Sums(_message.Message):
    __slots__ = ("count", "total", "squares", "steps")
    class StepsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    SQUARES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    count: int
    total: float
    squares: float
    steps: _containers.ScalarMap[int, int]
    def __init__(self, count: _Optional[int] = ..., total: _Optional[float] = ..., squares: _Optional[float] = ..., steps: _Optional[_Mapping[int, int]] = ...) -> None: ...

class OwnersRequest(_message.Message):
    __slots__ = ("past",)
    PAST_FIELD_NUMBER: _ClassVar[int]
    past: bool
    def __init__(self, past: _Optional[bool] = ...) -> None: ...

class OwnersReply(_message.Message):
    __slots__ = ("owner", "since", "p01", "p11", "step_s", "by_hour", "steps", "stays", "free_within_s", "rule", "interruptions", "admission", "shown_by")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    P01_FIELD_NUMBER: _ClassVar[int]
    P11_FIELD_NUMBER: _ClassVar[int]
    STEP_S_FIELD_NUMBER: _ClassVar[int]
    BY_HOUR_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STAYS_FIELD_NUMBER: _ClassVar[int]
    FREE_WITHIN_S_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTIONS_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    SHOWN_BY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    since: float
    p01: float
    p11: float
    step_s: float
    by_hour: _containers.RepeatedCompositeFieldContainer[OwnerHour]
    steps: int
    stays: int
    free_within_s: float
    rule: str
    interruptions: _containers.RepeatedCompositeFieldContainer[Interruption]
    admission: _containers.RepeatedScalarFieldContainer[str]
    shown_by: str
    def __init__(self, owner: _Optional[str] = ..., since: _Optional[float] = ..., p01: _Optional[float] = ..., p11: _Optional[float] = ..., step_s: _Optional[float] = ..., by_hour: _Optional[_Iterable[_Union[OwnerHour, _Mapping]]] = ..., steps: _Optional[int] = ..., stays: _Optional[int] = ..., free_within_s: _Optional[float] = ..., rule: _Optional[str] = ..., interruptions: _Optional[_Iterable[_Union[Interruption, _Mapping]]] = ..., admission: _Optional[_Iterable[str]] = ..., shown_by: _Optional[str] = ...) -> None: ...

class OwnerHour(_message.Message):
    __slots__ = ("p01", "p11", "steps")
    P01_FIELD_NUMBER: _ClassVar[int]
    P11_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    p01: float
    p11: float
    steps: int
    def __init__(self, p01: _Optional[float] = ..., p11: _Optional[float] = ..., steps: _Optional[int] = ...) -> None: ...

class Interruption(_message.Message):
    __slots__ = ("ended", "stay_s", "cost_s", "moved_after_s", "trial_limit_s")
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STAY_S_FIELD_NUMBER: _ClassVar[int]
    COST_S_FIELD_NUMBER: _ClassVar[int]
    MOVED_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    TRIAL_LIMIT_S_FIELD_NUMBER: _ClassVar[int]
    ended: float
    stay_s: float
    cost_s: float
    moved_after_s: float
    trial_limit_s: float
    def __init__(self, ended: _Optional[float] = ..., stay_s: _Optional[float] = ..., cost_s: _Optional[float] = ..., moved_after_s: _Optional[float] = ..., trial_limit_s: _Optional[float] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ("since", "after", "limit")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    since: float
    after: int
    limit: int
    def __init__(self, since: _Optional[float] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class HistoryReply(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[PastJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[PastJob, _Mapping]]] = ...) -> None: ...

class PastJob(_message.Message):
    __slots__ = ("number", "submitted", "waiting_s", "response_s", "cpu_s", "command", "origin", "host", "pinned")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    WAITING_S_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_S_FIELD_NUMBER: _ClassVar[int]
    CPU_S_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    number: int
    submitted: float
    waiting_s: float
    response_s: float
    cpu_s: float
    command: str
    origin: str
    host: str
    pinned: bool
    def __init__(self, number: _Optional[int] = ..., submitted: _Optional[float] = ..., waiting_s: _Optional[float] = ..., response_s: _Optional[float] = ..., cpu_s: _Optional[float] = ..., command: _Optional[str] = ..., origin: _Optional[str] = ..., host: _Optional[str] = ..., pinned: _Optional[bool] = ...) -> None: ...

class LinesRequest(_message.Message):
    __slots__ = ("job", "user", "uid", "since")
    JOB_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    job: str
    user: str
    uid: int
    since: float
    def __init__(self, job: _Optional[str] = ..., user: _Optional[str] = ..., uid: _Optional[int] = ..., since: _Optional[float] = ...) -> None: ...

class LinesReply(_message.Message):
    __slots__ = ("lines", "more", "withheld")
    LINES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    more: bool
    withheld: str
    def __init__(self, lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ..., more: _Optional[bool] = ..., withheld: _Optional[str] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("unix_s", "daemon", "level", "job", "text")
    UNIX_S_FIELD_NUMBER: _ClassVar[int]
    DAEMON_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    unix_s: float
    daemon: str
    level: str
    job: str
    text: str
    def __init__(self, unix_s: _Optional[float] = ..., daemon: _Optional[str] = ..., level: _Optional[str] = ..., job: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...
