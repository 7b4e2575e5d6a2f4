"""lbd.toml -> frozen, typed, validated values, one dataclass a section.

The dataclasses below *are* the schema: a field's type says what is allowed, its comment says the
unit and which way to turn it. A parameter the papers name carries their symbol. Loaded once, in
`cli`, and passed down; nothing reads the configuration globally.
"""

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from lbd.errors import ConfigError

ALGORITHMS = ("GLOBAL", "CENTRAL", "LOWEST", "NOLB")
SCOPES = ("auto", "host", "container", "jobs")
INDICES = ("smoothed",)

Scalar = str | int | float | bool
# What TOML can hold, as far as we use it: a scalar, a list of tables, or a table.
Value = Scalar | list[dict[str, Scalar]] | dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One line of `cluster.hosts`: where a host's daemons listen. Order is election rank."""

    name: str
    address: str
    lim_port: int = 7901
    lbm_port: int = 7902


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    name: str = "lbd"
    # Every host known beforehand, best-ranked centre first. May be left out when joining.
    hosts: tuple[HostEntry, ...] = ()
    # "address:port" of any one LIM to join by; "" when the list above is all there is.
    join: str = ""


@dataclass(frozen=True, slots=True)
class HostConfig:
    name: str = field(default_factory=lambda: socket.gethostname().split(".")[0])
    address: str = "127.0.0.1"  # where this host's daemons listen, and are told to others
    runtime_dir: str = field(default_factory=lambda: default_runtime_dir())
    state_dir: str = field(default_factory=lambda: default_state_dir())
    cores: float = 0.0  # usable cores; 0 = measured (affinity and cgroup quota)
    speed: float = 0.0  # relative to the reference machine; 0 = measured once by a loop


@dataclass(frozen=True, slots=True)
class LoadConfig:
    scope: str = "auto"  # what counts as this host's load: auto | host | container | jobs
    index: str = "smoothed"
    sample_hz: float = 10.0  # readings of the run queue a second, at least; scans slow themselves
    smoothing_s: float = 4.0  # T: longer is steadier, shorter sees a change sooner
    io_weight: float = 0.5  # w_io: what a task in disk wait counts beside a runnable one
    memory_weight: float = 1.0  # w_mem: the same for a task stalled on memory
    scan_core_share: float = 0.008  # of one core that the scanning scopes may use


@dataclass(frozen=True, slots=True)
class LimConfig:
    port: int = 7901
    algorithm: str = "GLOBAL"
    exchange_period_s: float = 1.0  # P: longer costs fewer messages, shorter misplaces fewer jobs
    local_threshold: float = 0.7  # T_l: load index at or below which commands stay
    report_ceiling: float = 4.0  # T_u: a host that stays above it need not report
    min_gain: float = 0.1  # Delta: how much lower another host's index must be
    probe_limit: int = 3  # L_p: hosts LOWEST asks
    job_threshold_s: float = 1.0  # T_CPU: commands below it are not worth moving
    change_threshold: float = 0.1  # a smaller change of the index is not reported
    keepalive_s: float = 5.0  # a report is sent this often even without a change
    probe_timeout_s: float = 0.2  # a probe or a question to the centre without answer by then
    stale_after_s: float = 12.0  # a sample older than this makes its host late, not zero
    down_after_s: float = 30.0  # unheard for this long: down
    forget_after_s: float = 86400.0  # a joined (not listed) host down for this long is forgotten
    centre_silence_s: float = 6.0  # the centre silent for this long: the next rank takes over
    avoid_s: float = 5.0  # a host that failed a command is not picked for this long
    hold_above: float = 1.5  # a command waits for room while the local index is above this
    hold_limit_s: float = 30.0  # and no longer than this
    max_hosts: int = 1024
    max_message_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class LbmConfig:
    port: int = 7902
    slots: int = 0  # foreign jobs at once; 0 = usable cores, rounded up
    max_waiting: int = 4096  # commands that may wait here for a slot; more are refused
    fallback_slots: int = 0  # local runs at once when others fail; 0 = twice the cores
    connect_timeout_s: float = 1.0  # for a channel to a host to become ready
    start_timeout_s: float = 10.0  # for the far host to say that the command has begun
    orphan_after_s: float = 10.0  # contact lost for this long ends an attached command
    kill_grace_s: float = 2.0  # from TERM to KILL
    max_hops: int = 2  # how often a command started by a moved command may move again
    chunk_bytes: int = 1 << 18  # the most that is read from a pipe at once
    max_request_bytes: int = 8 << 20  # arguments and environment of one command
    max_clients: int = 2048  # connections on the Unix socket
    history: int = 500  # ended jobs that `lbctl jobs` still shows
    cgroup: str = "auto"  # auto | off: contain each job in a cgroup of its own where writable


@dataclass(frozen=True, slots=True)
class UsersConfig:
    allow_root: bool = False  # run commands of root that come from other hosts


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    # The cluster's secret: a file with mode 0600 and the same content on every host. Without it
    # no network port is opened.
    key_file: str = ""
    # Plain transport is for loopback. A lab that made its own private network sets this.
    plain_lab: bool = False


@dataclass(frozen=True, slots=True)
class UpConfig:
    restart_backoff_s: float = 0.5  # before a daemon that died is started again; doubles
    restart_backoff_max_s: float = 30.0
    stop_timeout_s: float = 10.0  # for a daemon to stop after TERM


@dataclass(frozen=True, slots=True)
class Config:
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    host: HostConfig = field(default_factory=HostConfig)
    load: LoadConfig = field(default_factory=LoadConfig)
    lim: LimConfig = field(default_factory=LimConfig)
    lbm: LbmConfig = field(default_factory=LbmConfig)
    users: UsersConfig = field(default_factory=UsersConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    up: UpConfig = field(default_factory=UpConfig)
    path: str = ""  # the file it came from, "" for built-in defaults


def default_runtime_dir() -> str:
    """/run/lbd for root, else a directory of the user's own. `lbrun` looks in the same places."""
    if os.geteuid() == 0:
        return "/run/lbd"
    base = os.environ.get("XDG_RUNTIME_DIR")
    return f"{base}/lbd" if base else f"/tmp/lbd-{os.geteuid()}"


def default_state_dir() -> str:
    if os.geteuid() == 0:
        return "/var/lib/lbd"
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return f"{base}/lbd"
