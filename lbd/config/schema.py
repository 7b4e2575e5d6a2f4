"""What lbd.toml may say: one frozen dataclass a section, each field with default and bounds.

The dataclasses below *are* the schema. A field's comment says the unit and which way to turn it; a
parameter the papers name carries their symbol. docs/reference/settings.md is drawn from this file.
`config_file.load` reads a file into it, once, in `cli`, and the values are passed down; nothing
reads the configuration globally. This file does no IO, so that policy files may import it. What a
field is stands in `config_field.py`; a part with many sections has a file of its own.
"""

from dataclasses import dataclass, field

from lbd.config.access import (
    AdminConfig,
    AdmissionConfig,
    DaemonsConfig,
    LimitsConfig,
    UsersConfig,
)
from lbd.config.dispatch import DispatchConfig, TagsConfig
from lbd.config.fields import (
    NAMES,
    NUMBERS,
    Bounds,
    Section,
    bounds_of,
    fault_of,
    listed,
    one_of,
    shown,
    within,
)
from lbd.config.metrics import MetricsConfig
from lbd.config.resources import ResourcesConfig
from lbd.config.stats import StatsConfig

# for those who read a Config
__all__ = ("NAMES", "NUMBERS", "Bounds", "bounds_of", "fault_of", "shown")

ALGORITHMS = (
    "GLOBAL", "DISTED", "CENTRAL", "RANDOM", "THRHLD", "LOWEST", "RESERVE", "NOLB",
    "P2C", "PREDICT",
)  # fmt: skip
SCOPES = ("auto", "host", "container", "jobs")
INDICES = (
    "smoothed", "instant", "queue-1", "queue-4", "queue-20", "queue-60", "load-average",
    "utilisation", "utilisation-10", "utilisation-60",
)  # fmt: skip
LOG_LEVELS = ("info", "debug", "warning")
SITE = "site:"  # before the name of a load that the site's own command measures
CGROUPS = ("auto", "off")


@dataclass(frozen=True, slots=True)
class HostEntry(Section):
    """One entry of `cluster.hosts`: where a host's daemons listen. Order is election rank."""

    name: str
    address: str
    lim_port: int = within(7901, 1, 65535)
    lbm_port: int = within(7902, 1, 65535)


@dataclass(frozen=True, slots=True)
class ClusterConfig(Section):
    name: str = "lbd"  # shown by lbctl; nothing depends on it
    # every host known beforehand, best-ranked coordinator first: {name, address, lim_port,
    # lbm_port}
    hosts: tuple[HostEntry, ...] = ()
    join: str = ""  # "address:port" of any one LIM to join by; "" = the list above is all there is
    # names of all resources that hosts of this cluster may have in [resources], and commands may
    # need; empty = any. For all hosts by `lbctl config set cluster.resources … --cluster`
    resources: tuple[str, ...] = listed("gpu", "licence")


@dataclass(frozen=True, slots=True)
class HostConfig(Section):
    name: str = ""  # "" = the machine's short name; `load` fills it in
    address: str = ""  # where this host's daemons listen; "" = as in cluster.hosts, else 127.0.0.1
    runtime_dir: str = ""  # sockets; "" = /run/lbd for root, else $XDG_RUNTIME_DIR/lbd
    state_dir: str = ""  # what outlives a restart; "" = /var/lib/lbd, else ~/.local/state/lbd
    cores: float = within(
        0.0, 0.0, 65536.0
    )  # usable cores; 0 = affinity and cgroup quota, measured
    speed: float = within(0.0, 0.0, 1000.0)  # relative to the reference machine; 0 = measured once
    # what sets this host apart, for --feature; x86_64, linux and some of its CPU are found
    features: tuple[str, ...] = listed("big", "licensed")
    # that jobs of the queue may be given, like "8G", in place of what is found; "" = what is found
    memory: str = ""


@dataclass(frozen=True, slots=True)
class LoadConfig(Section):
    scope: str = one_of(SCOPES)  # what counts as this host's load
    # which measure of it is exchanged: queue is the CPU's alone; a number fixes T, instant has
    # T = 0 and load-average 60 s; site:NAME is what site_command says of NAME. `lbctl param index`
    # changes it for all hosts
    index: str = one_of(INDICES, SITE)
    # readings of the run queue a second, at least; the scanning scopes slow themselves
    sample_hz: float = within(10.0, 1.0, 100.0)
    # T: longer is steadier, shorter sees a change sooner
    smoothing_s: float = within(4.0, 0.1, 600.0)
    # w_io: what a task in disk wait counts beside a runnable one
    io_weight: float = within(0.5, 0.0, 10.0)
    # w_mem: the same for a task stalled on memory
    memory_weight: float = within(1.0, 0.0, 10.0)
    scan_core_share: float = within(0.008, 0.0005, 1.0)  # of one core, for the scanning scopes
    # a program of the site's, and its arguments, that prints lines of `name value`: other loads
    site_command: tuple[str, ...] = listed("/usr/local/lib/gpu-load", "--all")
    # from one run of it to the next; what it said is used for three times as long
    site_period_s: float = within(5.0, 0.2, 3600.0)
    site_timeout_s: float = within(2.0, 0.1, 600.0)  # then it is killed, with all it has started


@dataclass(frozen=True, slots=True)
class LimConfig(Section):
    port: int = within(7901, 1, 65535)  # TCP, for the LIMs of other hosts
    algorithm: str = one_of(ALGORITHMS)  # who tells whom its load, and who picks
    # P: longer costs fewer messages, shorter misplaces fewer jobs
    exchange_period_s: float = within(1.0, 0.05, 3600.0)
    # T_l: load index at or below which commands stay
    local_threshold: float = within(0.7, 0.0, 1000.0)
    report_ceiling: float = within(
        4.0, 0.0, 10000.0
    )  # T_u: a host that stays above it need not report
    min_gain: float = within(0.1, 0.0, 1000.0)  # Δ: how much lower another host's index must be
    probe_limit: int = within(3, 1, 1024)  # L_p: hosts LOWEST, THRHLD and RESERVE ask
    # how old a load may be for P2C and PREDICT to give it a third of its weight; loads change as
    # fast as commands come and go, so shorter where they are short
    trust_s: float = within(5.0, 0.01, 86400.0)
    # what moving a command costs in time: PREDICT moves it only for more than that
    move_cost_s: float = within(0.01, 0.0, 3600.0)
    reservations: int = within(5, 1, 1024)  # R: with how many loaded hosts RESERVE asks for jobs
    # T_CPU: commands of less CPU time are not worth moving (seconds on the thesis's machines of
    # 1987, which took hundreds of milliseconds to move one; here that takes a few)
    job_threshold_s: float = within(0.05, 0.0, 86400.0)
    change_threshold: float = within(
        0.1, 0.0, 1000.0
    )  # a smaller change of the index is not reported
    keepalive_s: float = within(
        5.0, 0.1, 3600.0
    )  # a report is sent this often even without a change
    # a probe, or a question to the coordinator, is given up after this long
    probe_timeout_s: float = within(0.2, 0.01, 60.0)
    # a sample older than this makes its host late, not zero
    stale_after_s: float = within(12.0, 0.2, 86400.0)
    down_after_s: float = within(30.0, 0.2, 86400.0)  # a host unheard for this long is down
    # a joined (not listed) host down for this long is forgotten
    forget_after_s: float = within(86400.0, 1.0, 1e9)
    # the coordinator silent for this long: the next rank takes over
    centre_silence_s: float = within(6.0, 0.2, 86400.0)
    avoid_s: float = within(
        5.0, 0.0, 86400.0
    )  # a host that failed a command is not picked this long
    # while this host's load is above this and others are full, commands wait for room elsewhere
    hold_above: float = within(1.5, 0.0, 10000.0)
    # how long a command waits for room at most; then it runs here if it may
    hold_limit_s: float = within(30.0, 0.0, 86400.0)
    # the coordinator tunes P, T_l, L_p and Δ to the load of all hosts (Zhou's Table 3.3); its
    # longer P under heavy load saves GLOBAL a third of its messages in the simulator, and no time
    adaptive: bool = False
    max_hosts: int = within(1024, 1, 65536)  # in this LIM's table
    max_message_bytes: int = within(1 << 20, 1 << 14, 1 << 28)  # a larger one is refused
    # what it hears, is asked and answers is written to history.jsonl in host.state_dir, up to this
    # length, again at each start: for `lbd sim replay`. 0 = nothing is
    history_bytes: int = within(0, 0, 1 << 40)
    # messages a second from one host, twice as many at once; more wait, if no longer than a second
    peer_rate: int = within(2000, 10, 1_000_000)


@dataclass(frozen=True, slots=True)
class LbmConfig(Section):
    port: int = within(7902, 1, 65535)  # TCP, for the LBMs of other hosts
    # commands of other hosts, and jobs of the queue, that run here at once; 0 = usable cores,
    # rounded up
    slots: int = within(0, 0, 65536)
    max_waiting: int = within(
        4096, 0, 1 << 20
    )  # commands that may wait for a slot, or run beyond the slots; more are refused
    # how long a command sent here by name (-H) waits for a slot before it runs beyond them
    named_wait_s: float = within(2.0, 0.0, 86400.0)
    # how long a command sent here by name waits for a slot, before it is refused, where none may
    # run beyond the slots (admission.slots, beyond_slots)
    named_limit_s: float = within(300.0, 0.0, 86400.0)
    # commands sent here by name that may run beyond the slots, but none where admission.slots is
    # set; 0 = as many as
    # there are slots, and 32 at least
    beyond_slots: int = within(0, 0, 65536)
    fallback_slots: int = within(
        0, 0, 65536
    )  # local runs at once when others fail; 0 = twice the cores
    connect_timeout_s: float = within(1.0, 0.01, 600.0)  # how long a connection to a host may take
    start_timeout_s: float = within(
        10.0, 0.1, 3600.0
    )  # for the far host to say the command has begun
    orphan_after_s: float = within(
        10.0, 0.5, 86400.0
    )  # contact lost so long ends an attached command
    kill_grace_s: float = within(2.0, 0.0, 3600.0)  # from TERM to KILL
    # how long a command that the owner of a host has sent away waits for one that takes it
    sent_away_wait_s: float = within(3600.0, 0.0, 1e6)
    # how many lbruns a command may be inside of and still move
    max_hops: int = within(2, 0, 100)
    chunk_bytes: int = within(
        1 << 20, 1 << 12, 1 << 24
    )  # the most that is read from a pipe at once
    # arguments and environment of one command, together; a longer request is refused
    max_request_bytes: int = within(8 << 20, 1 << 14, 12 << 20)
    # one message of a client that is no command: questions of lbctl, what is typed
    max_question_bytes: int = within(1 << 16, 1 << 12, 1 << 20)
    # bytes of requests longer than max_question_bytes that the LBM holds of one local user; who
    # would have it hold more waits a moment, and is refused then. It takes some five times as much
    # memory
    user_request_bytes: int = within(64 << 20, 13 << 20, 1 << 40)
    # bytes of such long requests that the LBM holds of all local users together
    users_request_bytes: int = within(256 << 20, 13 << 20, 1 << 40)
    # bytes of requests that the LBM holds of one other host, with 4 KiB for each command; more are
    # refused
    host_request_bytes: int = within(64 << 20, 13 << 20, 1 << 40)
    # bytes of requests that the LBM holds of all other hosts together
    hosts_request_bytes: int = within(256 << 20, 13 << 20, 1 << 40)
    # a host that does not share a directory is not asked about it again for this long
    unshared_s: float = within(60.0, 0.0, 86400.0)
    max_clients: int = within(2048, 1, 1 << 20)  # connections on the Unix socket
    # commands a second from one host, or of one local user; twice as many at once; more wait. A
    # long one counts as one for each 16 KiB
    max_rate: int = within(2000, 10, 1_000_000)
    history: int = within(500, 0, 1_000_000)  # ended jobs that `lbctl jobs` still shows
    cgroup: str = one_of(CGROUPS)  # contain each job in a cgroup of its own where writable


@dataclass(frozen=True, slots=True)
class StageConfig(Section):
    # where commands with --send get their directories; "" = /var/tmp/lbd-stage, or stage in
    # host.state_dir where the daemons serve their own user alone
    root: str = ""
    # the most bytes that one command may send or fetch; 0: no commands with --send or --fetch here
    max_bytes: int = within(1 << 30, 0, 1 << 50)
    # the most files, directories and links that one command may send or fetch
    max_files: int = within(100_000, 0, 100_000_000)


# What means something on this host only, and what should not lie about in the memory of others.
KEPT_BACK = (
    "DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER",
    "WINDOWID", "DESKTOP_STARTUP_ID", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_SEAT*", "XDG_VTNR",
    "DBUS_*", "SSH_*", "GPG_AGENT_INFO", "GPG_TTY", "GNOME_KEYRING_*", "TMUX", "TMUX_*", "STY",
    "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "JOURNAL_STREAM",
    "*_TOKEN", "*_SECRET", "*_SECRET_*", "*PASSWORD*", "*_PASSWD", "*_PASSPHRASE", "*_API_KEY",
    "*_APIKEY", "*_PRIVATE_KEY", "MYSQL_PWD",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EnvironmentConfig(Section):
    # variables that do not leave this host with a command; * and ? as in file names
    deny: tuple[str, ...] = KEPT_BACK
    allow: tuple[str, ...] = ()  # exceptions from `deny`, likewise


@dataclass(frozen=True, slots=True)
class EligibilityConfig(Section):
    # what a shell's commands always may leave by: names, kinds ("gcc -c"), patterns ("*-gcc")
    always: tuple[str, ...] = ()
    # what never leaves this host, also not by lbrun; as `always`, which it overrules
    never: tuple[str, ...] = ()
    # which hosts a shell's commands may run on, by feature, as with lbrun --feature and
    # --not-feature: "nvcc: +cuda", "gcc -c: +x86_64 -slow"; such commands may always leave
    features: tuple[str, ...] = ()
    max_commands: int = within(1000, 1, 100_000)  # whose CPU time is remembered, for each user
    max_users: int = within(200, 1, 100_000)  # of whom anything is remembered


@dataclass(frozen=True, slots=True)
class ShellConfig(Section):
    # what lbsh is: "" = /bin/sh for -c and scripts, $SHELL on a terminal; $LBD_SHELL overrules it
    program: str = ""


@dataclass(frozen=True, slots=True)
class LogConfig(Section):
    # what daemons log: what changes, all steps of each job too, or only what is wrong.
    # `lbctl param log.level` changes it for all hosts
    level: str = one_of(LOG_LEVELS)


@dataclass(frozen=True, slots=True)
class SecurityConfig(Section):
    # a lab's secret, for hosts on loopback without certificates; mode 0600, the same on each
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class UpConfig(Section):
    # the first pause before a daemon that died is started again; it doubles each time
    restart_backoff_s: float = within(0.5, 0.01, 3600.0)
    # the longest pause before a daemon that died is started again
    restart_backoff_max_s: float = within(30.0, 0.01, 86400.0)
    stop_timeout_s: float = within(10.0, 0.1, 3600.0)  # for a daemon to stop after TERM
    # a daemon whose event loop does not turn for this long is ended and started again; 0 = never
    watchdog_s: float = within(30.0, 0.0, 3600.0)


@dataclass(frozen=True, slots=True)
class TlsConfig(Section):
    """Trust between hosts."""

    dir: str = ""  # this host's key and certificate; "" = tls in host.state_dir
    # the cluster's authority, on the host where `lbctl init` ran; "" = host.state_dir with
    # -authority after it. Where the daemons are not root's, only root may be able to write there
    authority_dir: str = ""
    # how long the certificates last that this host's authority signs; they are renewed when a third
    # of that is left, so a host may be away from the authority for a third of it
    certificate_s: float = within(2_592_000.0, 1.0, 315_360_000.0)
    # a host asks for news of revoked hosts this often: the longest that one is believed after
    # `lbctl revoke` by a host that it could not tell at once
    revocation_check_s: float = within(30.0, 0.1, 86_400.0)


@dataclass(frozen=True, slots=True)
class Config:
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    host: HostConfig = field(default_factory=HostConfig)
    load: LoadConfig = field(default_factory=LoadConfig)
    lim: LimConfig = field(default_factory=LimConfig)
    lbm: LbmConfig = field(default_factory=LbmConfig)
    stage: StageConfig = field(default_factory=StageConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    eligibility: EligibilityConfig = field(default_factory=EligibilityConfig)
    users: UsersConfig = field(default_factory=UsersConfig)
    admin: AdminConfig = field(default_factory=AdminConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    resources: ResourcesConfig = field(default_factory=ResourcesConfig)
    daemons: DaemonsConfig = field(default_factory=DaemonsConfig)
    dispatch: DispatchConfig = field(default_factory=DispatchConfig)
    tags: TagsConfig = field(default_factory=TagsConfig)
    stats: StatsConfig = field(default_factory=StatsConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    log: LogConfig = field(default_factory=LogConfig)
    shell: ShellConfig = field(default_factory=ShellConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    up: UpConfig = field(default_factory=UpConfig)
    overrides: tuple[str, ...] = ()  # what --set said
    path: str = ""  # the file it came from, "" for built-in defaults
