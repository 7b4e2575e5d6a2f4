"""The schema of lbd.toml: one frozen dataclass per section, each field with default and bounds.

The dataclasses below *are* the schema. A field's comment gives the unit and which way to turn it;
parameters from the papers have their symbol. docs/reference/settings.md is generated from these
comments. `load.load` reads a file once, in `cli`, and the values are passed down; nothing reads the
configuration globally. This file does no IO, so that policy files may import it. Fields are defined
in `fields.py`; parts with many sections have files of their own.
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
from lbd.config.fields import Section, listed, one_of, within
from lbd.config.metrics import MetricsConfig
from lbd.config.resources import ResourcesConfig
from lbd.text.job_limits import REQUEST_BYTES_MAX

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
SITE = "site:"  # prefix of the name of a load measured by the site's own command
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
    # the hosts, the authority and the backups of one cluster have the same name; hosts refuse those
    # of another
    name: str = "lbd"
    # all hosts known in advance, in order of preference as coordinator: {name, address, lim_port,
    # lbm_port}
    hosts: tuple[HostEntry, ...] = ()
    # "address:port" of any one LIM to join through; "" = only the hosts listed above
    join: str = ""
    # names of all resources that hosts of this cluster may define in [resources] and commands may
    # request; empty = any. Set it for all hosts with `lbctl config set cluster.resources …
    # --cluster`
    resources: tuple[str, ...] = listed("gpu", "licence")


@dataclass(frozen=True, slots=True)
class HostConfig(Section):
    name: str = ""  # "" = the machine's short name
    address: str = ""  # where this host's daemons listen; "" = as in cluster.hosts, else 127.0.0.1
    # directory for sockets; "" = /run/lbd for root, else $XDG_RUNTIME_DIR/lbd
    runtime_dir: str = ""
    # directory for what survives restarts; "" = /var/lib/lbd, else ~/.local/state/lbd
    state_dir: str = ""
    cores: float = within(
        0.0, 0.0, 65536.0
    )  # usable cores; 0 = affinity and cgroup quota, measured
    # speed relative to the reference machine; 0 = measured once
    speed: float = within(0.0, 0.0, 1000.0)
    # what is special about this host, for --feature; x86_64, linux and some CPU features are
    # detected
    features: tuple[str, ...] = listed("big", "licensed")
    memory: str = ""  # memory available to queued jobs, like "8G"; "" = as detected


@dataclass(frozen=True, slots=True)
class LoadConfig(Section):
    scope: str = one_of(SCOPES)  # what counts as this host's load
    # the load measure that hosts exchange: queue measures the CPU only; a number sets T, instant
    # has T = 0 and load-average 60 s; site:NAME is the NAME that site_command prints. `lbctl param
    # index` changes it for all hosts
    index: str = one_of(INDICES, SITE)
    # minimum readings of the run queue per second; the scanning scopes slow down by themselves
    sample_hz: float = within(10.0, 1.0, 100.0)
    smoothing_s: float = within(4.0, 0.1, 600.0)  # T: longer is steadier, shorter reacts sooner
    # w_io: weight of a task waiting for disk, relative to a runnable one
    io_weight: float = within(0.5, 0.0, 10.0)
    # w_mem: weight of a task stalled on memory, likewise
    memory_weight: float = within(1.0, 0.0, 10.0)
    # share of one core that the scanning scopes may use
    scan_core_share: float = within(0.008, 0.0005, 1.0)
    # a site-specific program, with arguments, that prints lines of `name value`: additional loads
    site_command: tuple[str, ...] = listed("/usr/local/lib/gpu-load", "--all")
    # interval between its runs; its values are used for three times as long
    site_period_s: float = within(5.0, 0.2, 3600.0)
    # after this it is killed, with everything it has started
    site_timeout_s: float = within(2.0, 0.1, 600.0)


@dataclass(frozen=True, slots=True)
class LimConfig(Section):
    port: int = within(7901, 1, 65535)  # TCP, for the LIMs of other hosts
    algorithm: str = one_of(ALGORITHMS)  # who sends its load to whom, and who picks the host
    # P: longer costs fewer messages, shorter misplaces fewer jobs
    exchange_period_s: float = within(1.0, 0.05, 3600.0)
    # T_l: load index up to which commands run here
    local_threshold: float = within(0.7, 0.0, 1000.0)
    # T_u: a host whose load stays above this need not report
    report_ceiling: float = within(4.0, 0.0, 10000.0)
    min_gain: float = within(0.1, 0.0, 1000.0)  # Δ: how much lower another host's index must be
    probe_limit: int = within(3, 1, 1024)  # L_p: how many hosts LOWEST, THRHLD and RESERVE ask
    # age at which P2C and PREDICT give a load a third of its weight; loads change as fast as
    # commands come and go, so use less where commands are short
    trust_s: float = within(5.0, 0.01, 86400.0)
    # time it costs to move a command: PREDICT moves it only if it gains more
    move_cost_s: float = within(0.01, 0.0, 3600.0)
    reservations: int = within(5, 1, 1024)  # R: number of loaded hosts that RESERVE asks for jobs
    # T_CPU: commands that use less CPU time are not worth moving (seconds in the thesis, whose
    # machines of 1987 took hundreds of milliseconds to move one; here it takes a few)
    job_threshold_s: float = within(0.05, 0.0, 86400.0)
    # smaller changes of the index are not reported
    change_threshold: float = within(0.1, 0.0, 1000.0)
    # a report is sent at least this often, even without a change
    keepalive_s: float = within(5.0, 0.1, 3600.0)
    # how long to wait for the answer to a probe or to a question to the coordinator
    probe_timeout_s: float = within(0.2, 0.01, 60.0)
    # a host whose last sample is older than this is late
    stale_after_s: float = within(12.0, 0.2, 86400.0)
    down_after_s: float = within(30.0, 0.2, 86400.0)  # a host not heard from for this long is down
    # a joined (not listed) host that is down for this long is removed
    forget_after_s: float = within(86400.0, 1.0, 1e9)
    # when the coordinator is silent for this long, the next in rank takes over
    centre_silence_s: float = within(6.0, 0.2, 86400.0)
    # how long a host that failed a command is not picked
    avoid_s: float = within(5.0, 0.0, 86400.0)
    # while this host's load is above this and other hosts are full, commands wait for room
    # elsewhere
    hold_above: float = within(1.5, 0.0, 10000.0)
    # longest wait for room; after it, the command runs here if it may
    hold_limit_s: float = within(30.0, 0.0, 86400.0)
    # the coordinator adjusts P, T_l, L_p and Δ to the load of all hosts (Zhou's Table 3.3); in the
    # simulator, its longer P under heavy load saves GLOBAL a third of its messages, but no time
    adaptive: bool = False
    max_hosts: int = within(1024, 1, 65536)  # hosts in this LIM's table
    max_message_bytes: int = within(1 << 20, 1 << 14, 1 << 28)  # larger messages are refused
    # record what this LIM hears, is asked and answers in history.jsonl in host.state_dir, up to
    # this size and from the beginning at each start, for `lbd sim replay`; 0 = off
    history_bytes: int = within(0, 0, 1 << 40)
    # messages per second from one host, with bursts of twice as many; excess messages wait for up
    # to a second
    peer_rate: int = within(2000, 10, 1_000_000)


@dataclass(frozen=True, slots=True)
class LbmConfig(Section):
    port: int = within(7902, 1, 65535)  # TCP, for the LBMs of other hosts
    # commands of other hosts and queued jobs that run here at once; 0 = usable cores, rounded up
    slots: int = within(0, 0, 65536)
    # commands that may wait for a slot or run beyond the slots; more are refused
    max_waiting: int = within(4096, 0, 1 << 20)
    # how long a command sent here by name (-H) waits for a slot before it runs beyond the slots
    named_wait_s: float = within(2.0, 0.0, 86400.0)
    # how long a command sent here by name waits for a slot before it is refused, where none may run
    # beyond the slots (admission.slots, beyond_slots); and for how long the waiting commands of one
    # user may keep free slots, or some resource, from others until all that they need is free.
    # After that they keep nothing for as long
    named_limit_s: float = within(300.0, 0.0, 86400.0)
    # commands sent here by name that may run beyond the slots, but none where admission.slots is
    # set; 0 = as many as there are slots, and at least 32. With the slots, one user has three
    # quarters of these places
    beyond_slots: int = within(0, 0, 65536)
    # commands run here at once when no LBM answers; 0 = twice the cores
    fallback_slots: int = within(0, 0, 65536)
    connect_timeout_s: float = within(1.0, 0.01, 600.0)  # how long connecting to a host may take
    # how long the other host may take to say that the command has started
    start_timeout_s: float = within(10.0, 0.1, 3600.0)
    # an attached command is ended when contact is lost for this long
    orphan_after_s: float = within(10.0, 0.5, 86400.0)
    kill_grace_s: float = within(2.0, 0.0, 3600.0)  # time between TERM and KILL
    # how long a command evicted because a host's owner is back waits for a host that accepts it
    sent_away_wait_s: float = within(3600.0, 0.0, 1e6)
    # nesting depth of lbruns up to which a command may still move
    max_hops: int = within(2, 0, 100)
    # arguments and environment of one command together; longer requests are refused
    max_request_bytes: int = within(8 << 20, 1 << 14, REQUEST_BYTES_MAX)
    # longest client message other than a command: questions of lbctl, terminal input
    max_question_bytes: int = within(1 << 16, 1 << 12, 1 << 20)
    # bytes of requests longer than max_question_bytes that the LBM holds for one local user; beyond
    # that, requests wait briefly and are then refused. They take about five times as much memory
    user_request_bytes: int = within(64 << 20, 13 << 20, 1 << 40)
    # bytes of such long requests that the LBM holds for all local users together
    users_request_bytes: int = within(256 << 20, 13 << 20, 1 << 40)
    # bytes of requests that the LBM holds for one other host, plus 4 KiB per command; more are
    # refused
    host_request_bytes: int = within(64 << 20, 13 << 20, 1 << 40)
    # bytes of requests that the LBM holds for all other hosts together
    hosts_request_bytes: int = within(256 << 20, 13 << 20, 1 << 40)
    # how long a host that does not share a directory is not asked about it again
    unshared_s: float = within(60.0, 0.0, 86400.0)
    max_clients: int = within(2048, 1, 1 << 20)  # connections on the Unix socket
    # commands per second from one host or one local user, with bursts of twice as many; more wait.
    # A long one counts once per 16 KiB, and once per 32 words (arguments, variables) beyond 1,000
    max_rate: int = within(2000, 10, 1_000_000)
    history: int = within(500, 0, 1_000_000)  # ended jobs that `lbctl jobs` still shows
    cgroup: str = one_of(CGROUPS)  # run each job in its own cgroup where cgroups are writable


@dataclass(frozen=True, slots=True)
class StageConfig(Section):
    # parent of the working directories of commands with --send; "" = /var/tmp/lbd-stage, or stage
    # in host.state_dir if the daemons serve only their own user
    root: str = ""
    # most bytes that one command may send or fetch; 0 = no commands with --send or --fetch here
    max_bytes: int = within(1 << 30, 0, 1 << 50)
    # most files, directories and links that one command may send or fetch
    max_files: int = within(100_000, 0, 100_000_000)


# Variables that are valid on this host only, or must not end up in the memory of others.
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
    allow: tuple[str, ...] = ()  # exceptions from `deny`, in the same form


@dataclass(frozen=True, slots=True)
class EligibilityConfig(Section):
    # commands of a shell that may always leave: names, kinds ("gcc -c"), patterns ("*-gcc")
    always: tuple[str, ...] = ()
    # commands that never leave this host, not even through lbrun; same form as `always`, and
    # overrides it
    never: tuple[str, ...] = ()
    # hosts that a shell's commands may run on, by feature, as with lbrun --feature and
    # --not-feature: "nvcc: +cuda", "gcc -c: +x86_64 -slow"; such commands may always leave
    features: tuple[str, ...] = ()
    max_commands: int = within(1000, 1, 100_000)  # commands per user whose CPU time is remembered
    max_users: int = within(200, 1, 100_000)  # users for whom anything is remembered


@dataclass(frozen=True, slots=True)
class ShellConfig(Section):
    # the shell behind lbsh: "" = /bin/sh for -c and scripts, $SHELL on a terminal; $LBD_SHELL
    # overrides it
    program: str = ""


@dataclass(frozen=True, slots=True)
class StatsConfig(Section):
    """Records of ended jobs, for `lbctl stats` and `lbctl advise`."""

    # ended jobs on record; 0 = none. Beyond that, the users with the most lose their oldest
    max_rows: int = within(200_000, 0, 100_000_000)
    # size of usage.sqlite in host.state_dir; room is made by dropping the same jobs
    max_bytes: int = within(64 << 20, 1 << 19, 1 << 40)
    keep_days: float = within(90.0, 0.0, 36500.0)  # how long ended jobs stay on record


@dataclass(frozen=True, slots=True)
class LogConfig(Section):
    # what daemons log: changes (info), also every step of each job (debug), or only problems
    # (warning). `lbctl param log.level` changes it for all hosts
    level: str = one_of(LOG_LEVELS)


@dataclass(frozen=True, slots=True)
class SecurityConfig(Section):
    # a lab's secret, for hosts on loopback without certificates; mode 0600, the same file on each
    # host
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class UpConfig(Section):
    # pause before a daemon that died is restarted the first time; doubles each time
    restart_backoff_s: float = within(0.5, 0.01, 3600.0)
    # longest pause before a daemon that died is restarted
    restart_backoff_max_s: float = within(30.0, 0.01, 86400.0)
    # how long a daemon may take to stop after TERM
    stop_timeout_s: float = within(10.0, 0.1, 3600.0)
    # a daemon whose event loop has not run for this long is killed and restarted; 0 = never
    watchdog_s: float = within(30.0, 0.0, 3600.0)


@dataclass(frozen=True, slots=True)
class TlsConfig(Section):
    """Trust between hosts."""

    dir: str = ""  # directory of this host's key and certificate; "" = tls in host.state_dir
    # directory of the cluster's authority, on the host where `lbctl init` ran; "" = host.state_dir
    # plus -authority. Where the daemons do not run as root, it must be writable only by root
    authority_dir: str = ""
    # lifetime of the certificates this host's authority signs; they are renewed when a third of it
    # is left, so a host may be out of the authority's reach for a third of it
    certificate_s: float = within(2_592_000.0, 1.0, 315_360_000.0)
    # how often a host asks for revocations: the longest that a host which `lbctl revoke` could not
    # reach keeps trusting the revoked one
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
    overrides: tuple[str, ...] = ()  # the --set options
    path: str = ""  # the file read; "" for built-in defaults
