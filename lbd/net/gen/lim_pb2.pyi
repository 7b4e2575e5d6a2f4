from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LimMessage(_message.Message):
    __slots__ = ("cluster", "sender", "incarnation", "hello", "members", "report", "probe", "probe_reply", "ask_centre", "centre_reply", "settings", "drain", "leave", "ping", "ack", "reserve", "reserve_reply", "unreserve", "forget", "delta")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    HELLO_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    PROBE_REPLY_FIELD_NUMBER: _ClassVar[int]
    ASK_CENTRE_FIELD_NUMBER: _ClassVar[int]
    CENTRE_REPLY_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    RESERVE_REPLY_FIELD_NUMBER: _ClassVar[int]
    UNRESERVE_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    sender: str
    incarnation: int
    hello: Hello
    members: Members
    report: Report
    probe: Probe
    probe_reply: ProbeReply
    ask_centre: AskCentre
    centre_reply: CentreReply
    settings: Settings
    drain: Drain
    leave: Leave
    ping: Ping
    ack: Ack
    reserve: Reserve
    reserve_reply: ReserveReply
    unreserve: Unreserve
    forget: Forget
    delta: Delta
    def __init__(self, cluster: _Optional[str] = ..., sender: _Optional[str] = ..., incarnation: _Optional[int] = ..., hello: _Optional[_Union[Hello, _Mapping]] = ..., members: _Optional[_Union[Members, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ..., probe_reply: _Optional[_Union[ProbeReply, _Mapping]] = ..., ask_centre: _Optional[_Union[AskCentre, _Mapping]] = ..., centre_reply: _Optional[_Union[CentreReply, _Mapping]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., reserve: _Optional[_Union[Reserve, _Mapping]] = ..., reserve_reply: _Optional[_Union[ReserveReply, _Mapping]] = ..., unreserve: _Optional[_Union[Unreserve, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., delta: _Optional[_Union[Delta, _Mapping]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "address", "lim_port", "lbm_port", "rank", "incarnation", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LIM_PORT_FIELD_NUMBER: _ClassVar[int]
    LBM_PORT_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    lim_port: int
    lbm_port: int
    rank: int
    incarnation: int
    version: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., lim_port: _Optional[int] = ..., lbm_port: _Optional[int] = ..., rank: _Optional[int] = ..., incarnation: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("self", "wants_members")
    SELF_FIELD_NUMBER: _ClassVar[int]
    WANTS_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    self: Member
    wants_members: bool
    def __init__(self_, self: _Optional[_Union[Member, _Mapping]] = ..., wants_members: _Optional[bool] = ...) -> None: ...

class Members(_message.Message):
    __slots__ = ("members", "settings")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    settings: Settings
    def __init__(self, members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class Sample(_message.Message):
    __slots__ = ("host", "incarnation", "number", "age_s", "index", "cpu_queue", "io_queue", "memory_queue", "utilisation", "cores", "speed", "slots_total", "slots_used", "jobs_local", "jobs_foreign", "accepting", "hog", "drained", "site", "owner", "memory_total_mib", "memory_available_mib", "features", "resources", "memory_for_jobs_mib", "memory_given_mib", "closed", "opens")
    class SiteEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    CPU_QUEUE_FIELD_NUMBER: _ClassVar[int]
    IO_QUEUE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_QUEUE_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    SLOTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    JOBS_LOCAL_FIELD_NUMBER: _ClassVar[int]
    JOBS_FOREIGN_FIELD_NUMBER: _ClassVar[int]
    ACCEPTING_FIELD_NUMBER: _ClassVar[int]
    HOG_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_MIB_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FOR_JOBS_MIB_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GIVEN_MIB_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    OPENS_FIELD_NUMBER: _ClassVar[int]
    host: str
    incarnation: int
    number: int
    age_s: float
    index: float
    cpu_queue: float
    io_queue: float
    memory_queue: float
    utilisation: float
    cores: float
    speed: float
    slots_total: int
    slots_used: int
    jobs_local: int
    jobs_foreign: int
    accepting: bool
    hog: str
    drained: bool
    site: _containers.ScalarMap[str, float]
    owner: int
    memory_total_mib: int
    memory_available_mib: int
    features: str
    resources: str
    memory_for_jobs_mib: int
    memory_given_mib: int
    closed: int
    opens: str
    def __init__(self, host: _Optional[str] = ..., incarnation: _Optional[int] = ..., number: _Optional[int] = ..., age_s: _Optional[float] = ..., index: _Optional[float] = ..., cpu_queue: _Optional[float] = ..., io_queue: _Optional[float] = ..., memory_queue: _Optional[float] = ..., utilisation: _Optional[float] = ..., cores: _Optional[float] = ..., speed: _Optional[float] = ..., slots_total: _Optional[int] = ..., slots_used: _Optional[int] = ..., jobs_local: _Optional[int] = ..., jobs_foreign: _Optional[int] = ..., accepting: _Optional[bool] = ..., hog: _Optional[str] = ..., drained: _Optional[bool] = ..., site: _Optional[_Mapping[str, float]] = ..., owner: _Optional[int] = ..., memory_total_mib: _Optional[int] = ..., memory_available_mib: _Optional[int] = ..., features: _Optional[str] = ..., resources: _Optional[str] = ..., memory_for_jobs_mib: _Optional[int] = ..., memory_given_mib: _Optional[int] = ..., closed: _Optional[int] = ..., opens: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("sample", "ended")
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    sample: Sample
    ended: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sample: _Optional[_Union[Sample, _Mapping]] = ..., ended: _Optional[_Iterable[str]] = ...) -> None: ...

class Delta(_message.Message):
    __slots__ = ("since", "version", "digest", "whole", "loads", "silent", "gone", "fresh_age_ds", "settings_counter", "settings_author", "policy_counter", "policy_mark")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    FRESH_AGE_DS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_COUNTER_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_AUTHOR_FIELD_NUMBER: _ClassVar[int]
    POLICY_COUNTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_MARK_FIELD_NUMBER: _ClassVar[int]
    since: int
    version: int
    digest: int
    whole: _containers.RepeatedCompositeFieldContainer[HostLine]
    loads: Loads
    silent: _containers.RepeatedScalarFieldContainer[int]
    gone: _containers.RepeatedScalarFieldContainer[int]
    fresh_age_ds: int
    settings_counter: int
    settings_author: str
    policy_counter: int
    policy_mark: str
    def __init__(self, since: _Optional[int] = ..., version: _Optional[int] = ..., digest: _Optional[int] = ..., whole: _Optional[_Iterable[_Union[HostLine, _Mapping]]] = ..., loads: _Optional[_Union[Loads, _Mapping]] = ..., silent: _Optional[_Iterable[int]] = ..., gone: _Optional[_Iterable[int]] = ..., fresh_age_ds: _Optional[int] = ..., settings_counter: _Optional[int] = ..., settings_author: _Optional[str] = ..., policy_counter: _Optional[int] = ..., policy_mark: _Optional[str] = ...) -> None: ...

class HostLine(_message.Message):
    __slots__ = ("slot", "sample")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    sample: Sample
    def __init__(self, slot: _Optional[int] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ...) -> None: ...

class Loads(_message.Message):
    __slots__ = ("slots", "numbers", "ages_ds", "indices", "cpu_queues", "io_queues", "memory_queues", "utilisations", "slots_used", "jobs_local", "jobs_foreign", "memory_available_mib")
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    AGES_DS_FIELD_NUMBER: _ClassVar[int]
    INDICES_FIELD_NUMBER: _ClassVar[int]
    CPU_QUEUES_FIELD_NUMBER: _ClassVar[int]
    IO_QUEUES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_QUEUES_FIELD_NUMBER: _ClassVar[int]
    UTILISATIONS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_USED_FIELD_NUMBER: _ClassVar[int]
    JOBS_LOCAL_FIELD_NUMBER: _ClassVar[int]
    JOBS_FOREIGN_FIELD_NUMBER: _ClassVar[int]
    MEMORY_AVAILABLE_MIB_FIELD_NUMBER: _ClassVar[int]
    slots: _containers.RepeatedScalarFieldContainer[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    ages_ds: _containers.RepeatedScalarFieldContainer[int]
    indices: _containers.RepeatedScalarFieldContainer[int]
    cpu_queues: _containers.RepeatedScalarFieldContainer[int]
    io_queues: _containers.RepeatedScalarFieldContainer[int]
    memory_queues: _containers.RepeatedScalarFieldContainer[int]
    utilisations: _containers.RepeatedScalarFieldContainer[int]
    slots_used: _containers.RepeatedScalarFieldContainer[int]
    jobs_local: _containers.RepeatedScalarFieldContainer[int]
    jobs_foreign: _containers.RepeatedScalarFieldContainer[int]
    memory_available_mib: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slots: _Optional[_Iterable[int]] = ..., numbers: _Optional[_Iterable[int]] = ..., ages_ds: _Optional[_Iterable[int]] = ..., indices: _Optional[_Iterable[int]] = ..., cpu_queues: _Optional[_Iterable[int]] = ..., io_queues: _Optional[_Iterable[int]] = ..., memory_queues: _Optional[_Iterable[int]] = ..., utilisations: _Optional[_Iterable[int]] = ..., slots_used: _Optional[_Iterable[int]] = ..., jobs_local: _Optional[_Iterable[int]] = ..., jobs_foreign: _Optional[_Iterable[int]] = ..., memory_available_mib: _Optional[_Iterable[int]] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProbeReply(_message.Message):
    __slots__ = ("sample",)
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    sample: Sample
    def __init__(self, sample: _Optional[_Union[Sample, _Mapping]] = ...) -> None: ...

class AskCentre(_message.Message):
    __slots__ = ("job_id", "excluded", "must_leave", "may_wait", "dry", "sample", "charges", "ended", "needs")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    MUST_LEAVE_FIELD_NUMBER: _ClassVar[int]
    MAY_WAIT_FIELD_NUMBER: _ClassVar[int]
    DRY_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    CHARGES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    NEEDS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    must_leave: bool
    may_wait: bool
    dry: bool
    sample: Sample
    charges: float
    ended: _containers.RepeatedScalarFieldContainer[str]
    needs: str
    def __init__(self, job_id: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ..., must_leave: _Optional[bool] = ..., may_wait: _Optional[bool] = ..., dry: _Optional[bool] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ..., charges: _Optional[float] = ..., ended: _Optional[_Iterable[str]] = ..., needs: _Optional[str] = ...) -> None: ...

class CentreReply(_message.Message):
    __slots__ = ("verdict", "host", "reason")
    class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOWHERE: _ClassVar[CentreReply.Verdict]
        HERE: _ClassVar[CentreReply.Verdict]
        THERE: _ClassVar[CentreReply.Verdict]
        WAIT: _ClassVar[CentreReply.Verdict]
    NOWHERE: CentreReply.Verdict
    HERE: CentreReply.Verdict
    THERE: CentreReply.Verdict
    WAIT: CentreReply.Verdict
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    verdict: CentreReply.Verdict
    host: str
    reason: str
    def __init__(self, verdict: _Optional[_Union[CentreReply.Verdict, str]] = ..., host: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Reserve(_message.Message):
    __slots__ = ("sample",)
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    sample: Sample
    def __init__(self, sample: _Optional[_Union[Sample, _Mapping]] = ...) -> None: ...

class ReserveReply(_message.Message):
    __slots__ = ("taken", "sample")
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    taken: bool
    sample: Sample
    def __init__(self, taken: _Optional[bool] = ..., sample: _Optional[_Union[Sample, _Mapping]] = ...) -> None: ...

class Unreserve(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Settings(_message.Message):
    __slots__ = ("counter", "author", "algorithm", "params", "tuned", "words", "drains", "drain_notes", "saved", "past_drains", "seal")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class TunedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class WordsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DrainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bool] = ...) -> None: ...
    class DrainNotesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: DrainNote
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[DrainNote, _Mapping]] = ...) -> None: ...
    class SavedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    TUNED_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    DRAINS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_NOTES_FIELD_NUMBER: _ClassVar[int]
    SAVED_FIELD_NUMBER: _ClassVar[int]
    PAST_DRAINS_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    counter: int
    author: str
    algorithm: str
    params: _containers.ScalarMap[str, float]
    tuned: _containers.ScalarMap[str, float]
    words: _containers.ScalarMap[str, str]
    drains: _containers.ScalarMap[str, bool]
    drain_notes: _containers.MessageMap[str, DrainNote]
    saved: _containers.ScalarMap[str, str]
    past_drains: _containers.RepeatedCompositeFieldContainer[PastDrain]
    seal: Seal
    def __init__(self, counter: _Optional[int] = ..., author: _Optional[str] = ..., algorithm: _Optional[str] = ..., params: _Optional[_Mapping[str, float]] = ..., tuned: _Optional[_Mapping[str, float]] = ..., words: _Optional[_Mapping[str, str]] = ..., drains: _Optional[_Mapping[str, bool]] = ..., drain_notes: _Optional[_Mapping[str, DrainNote]] = ..., saved: _Optional[_Mapping[str, str]] = ..., past_drains: _Optional[_Iterable[_Union[PastDrain, _Mapping]]] = ..., seal: _Optional[_Union[Seal, _Mapping]] = ...) -> None: ...

class Seal(_message.Message):
    __slots__ = ("counter", "author", "trial", "certificate", "signature")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    TRIAL_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    counter: int
    author: str
    trial: bytes
    certificate: bytes
    signature: bytes
    def __init__(self, counter: _Optional[int] = ..., author: _Optional[str] = ..., trial: _Optional[bytes] = ..., certificate: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class DrainNote(_message.Message):
    __slots__ = ("reason", "by", "since")
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    by: str
    since: float
    def __init__(self, reason: _Optional[str] = ..., by: _Optional[str] = ..., since: _Optional[float] = ...) -> None: ...

class PastDrain(_message.Message):
    __slots__ = ("host", "note", "until_by", "until")
    HOST_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_BY_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    host: str
    note: DrainNote
    until_by: str
    until: float
    def __init__(self, host: _Optional[str] = ..., note: _Optional[_Union[DrainNote, _Mapping]] = ..., until_by: _Optional[str] = ..., until: _Optional[float] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("drained",)
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    drained: bool
    def __init__(self, drained: _Optional[bool] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("for_good",)
    FOR_GOOD_FIELD_NUMBER: _ClassVar[int]
    for_good: bool
    def __init__(self, for_good: _Optional[bool] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ack(_message.Message):
    __slots__ = ("error", "unknown_sender", "known_incarnation", "unix_time_s", "version", "name_taken", "algorithm", "settings_counter", "settings_author", "policy_counter", "policy_mark", "known_version")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_SENDER_FIELD_NUMBER: _ClassVar[int]
    KNOWN_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    UNIX_TIME_S_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_TAKEN_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_COUNTER_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_AUTHOR_FIELD_NUMBER: _ClassVar[int]
    POLICY_COUNTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_MARK_FIELD_NUMBER: _ClassVar[int]
    KNOWN_VERSION_FIELD_NUMBER: _ClassVar[int]
    error: str
    unknown_sender: bool
    known_incarnation: int
    unix_time_s: float
    version: str
    name_taken: bool
    algorithm: str
    settings_counter: int
    settings_author: str
    policy_counter: int
    policy_mark: str
    known_version: int
    def __init__(self, error: _Optional[str] = ..., unknown_sender: _Optional[bool] = ..., known_incarnation: _Optional[int] = ..., unix_time_s: _Optional[float] = ..., version: _Optional[str] = ..., name_taken: _Optional[bool] = ..., algorithm: _Optional[str] = ..., settings_counter: _Optional[int] = ..., settings_author: _Optional[str] = ..., policy_counter: _Optional[int] = ..., policy_mark: _Optional[str] = ..., known_version: _Optional[int] = ...) -> None: ...
