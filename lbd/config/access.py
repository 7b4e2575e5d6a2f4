"""The sections of lbd.toml about access to a host: who may do what."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from lbd.config.fields import Section, listed, one_of, within


@dataclass(frozen=True, slots=True)
class UsersConfig(Section):
    """The accounts of this host that commands of other hosts run as."""

    # account under which a command of another host runs: "name" = the account of the same name,
    # "uid" = of the same number, "single:NAME" = NAME for all
    map: str = "name"
    # run commands of root from other hosts. The keeper goes by this and the next two, too, and is
    # not restarted by `lbctl restart`: `systemctl restart lbd-keeper`, which ends what runs here
    allow_root: bool = False
    # accounts below this are system accounts and run no commands; nor do nobody and 60514 to 65535
    min_uid: int = within(1000, 1, 1 << 31)
    # system accounts, and accounts that may not log in, that may run commands anyway; * and ? as in
    # file names
    allow: tuple[str, ...] = ()
    unknown: str = ""  # account for users unknown on this host; "" = they are refused
    # commands of other hosts cannot gain privileges by exec: sudo, su and setuid programs do not
    # work
    no_new_privileges: bool = False


@dataclass(frozen=True, slots=True)
class AdminConfig(Section):
    """Who is an administrator."""

    # users who may see and control everybody's jobs, drain hosts and change parameters; root always
    # may
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # groups whose members may, too
    # hosts whose administrators, including root, may act on plain commands of this host's users,
    # see everybody's (including ended ones), and, on the dispatcher's host, act on queued jobs of
    # other hosts; * and ? as in names. Hosts that may run the dispatcher always may act on queued
    # jobs
    hosts: tuple[str, ...] = ()
    # hosts whose administrators may change settings for the whole cluster; * and ? as in names;
    # empty = all hosts. Set it identically on every host: each accepts only settings signed by a
    # host in its own lbd.toml. Hosts without certificates ignore it
    settings_hosts: tuple[str, ...] = ()

    def may_set(self, host: str) -> bool:
        """Returns whether that host's administrators may change settings for the whole cluster."""
        names = self.settings_hosts
        return not names or any(fnmatchcase(host, pattern) for pattern in names)

    def are_on(self, host: str) -> bool:
        """Returns whether this host accepts administrators named by that host, for jobs of
        others."""
        return any(fnmatchcase(host, pattern) for pattern in self.hosts)


KEEPERS = ("own", "apart")


@dataclass(frozen=True, slots=True)
class DaemonsConfig(Section):
    """The accounts and processes of the daemons."""

    # whom `lbd up`, started by root, runs LIM, LBM and dispatcher as; "" = lbd, "root" = root. The
    # keeper stays root
    user: str = ""
    # whether the LBM starts its keeper, or `lbd keeper` was started before; `lbd up` sees to it
    keeper: str = one_of(KEEPERS)


OWNER_IS_BACK = ("keep", "nice", "suspend", "evict", "decide")
DECIDE_BY = ("trials", "work", "threshold", "myopic", "optimal", "timer")


@dataclass(frozen=True, slots=True)
class AdmissionConfig(Section):
    """The owner's rules for commands of other hosts. An empty list sets no rule."""

    # users whose commands may run here; names and groups are those of this host's accounts.
    # Patterns with * and ?, as in all these lists
    users: tuple[str, ...] = ()
    # users whose commands never run here; denying overrides allowing
    deny_users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # like `users`, by group; a user in either list may
    deny_groups: tuple[str, ...] = ()  # like `deny_users`, by group
    # hosts whose commands may run here; only they may read the output of queued jobs stored here
    origins: tuple[str, ...] = ()
    deny_origins: tuple[str, ...] = ()  # hosts whose commands never run here
    # programs that may run here, by real path with links resolved: "/usr/bin/gcc-*"; without a
    # directory ("gcc-*") every file of that name, also a user's own
    programs: tuple[str, ...] = ()
    # programs that never run here, likewise. A user can copy a program: to confine users, list
    # what may run
    deny_programs: tuple[str, ...] = ()
    # when commands of other hosts may run, by this host's clock and time zone: "sat,sun",
    # "22:00-06:00", "mon-fri 18:00-08:00" (past midnight, the day is the one on which it started),
    # or five fields as in a crontab
    when: tuple[str, ...] = listed("mon-fri 18:00-08:00", "sat,sun")
    # when everybody's commands may run, whatever `users` and `groups` say: windows as for `when`.
    # All other rules hold
    everybody_when: tuple[str, ...] = listed("18:00-08:00", "sat,sun")
    # commands of other hosts and queued jobs that run here at once, including those sent by name
    # (-H); if it is above lbm.slots, lbm.slots is in force. 0 = lbm.slots
    slots: int = within(0, 0, 65536)
    # no new commands while the load index here is above this; 0 = no limit
    load_ceiling: float = within(0.0, 0.0, 10000.0)
    # no new commands while all tasks here have stalled on memory for more than this percentage of
    # the last ten seconds (PSI, full avg10) and less than a quarter of the memory is left; 0 = no
    # limit
    memory_pressure: float = within(20.0, 0.0, 100.0)
    # the owner is back if a terminal, keyboard or mouse of this host has been used within this
    # time, at least 20, as the use of a terminal is noted every 8 s; 0 = they do not count
    owner_idle_s: float = within(0.0, 0.0, 86400.0)
    owners: tuple[str, ...] = ()  # users whose terminals count; empty = everybody's
    # the owner is back while programs other than commands of other hosts keep more cores busy than
    # this; 0 = never
    owner_load: float = within(0.0, 0.0, 65536.0)
    # what happens when the owner is back: no new commands are accepted, and running ones keep
    # running (keep), run at the lowest priority (nice), are suspended until the owner leaves
    # (suspend), start again on another host (evict), or are suspended and moved once that costs
    # less than waiting longer (decide)
    owner_is_back: str = one_of(OWNER_IS_BACK)
    # how long the owner must be back before commands are evicted. Those that cannot be started
    # again (they have printed or read, or have --no-restart) are suspended instead
    evict_grace_s: float = within(10.0, 0.0, 86400.0)
    # how long "decide" waits: as would have been best so far on this cluster's hosts (trials); by
    # how long this owner stays and the work that moving loses (work); by the thresholds of He et
    # al., which weigh time (threshold); for ever if a move costs a step or more (myopic); as their
    # full process finds best in each step, which also considers the other hosts (optimal); or for
    # decide_after_s (timer)
    decide_by: str = one_of(DECIDE_BY)
    # how long a command waits for the owner to leave before it is moved, with decide_by = "timer"
    decide_after_s: float = within(600.0, 0.0, 86400.0)
    # step length of the learnt probabilities (here or away a step later, by hour of the week). A
    # change takes effect when the LBM restarts
    owner_step_s: float = within(60.0, 1.0, 3600.0)


@dataclass(frozen=True, slots=True)
class LimitsConfig(Section):
    """What commands of other hosts may use here; enforced by cgroups where available."""

    # memory of one command of another host and all its processes; --mem may set less. 0 = no limit
    job_memory_bytes: int = within(0, 0, 1 << 62)
    # memory of all commands of other hosts together, of which one user's may have three quarters;
    # needs cgroups. 0 = no limit
    memory_bytes: int = within(0, 0, 1 << 62)
    # processes and threads of one command of another host. 0 = no limit
    job_processes: int = within(0, 0, 1 << 22)
    # share of CPU time of all commands of other hosts together when this host's programs compete
    # for it: 100 = as much as any other group of programs. Without a CPU cgroup, nice values
    # approximate it
    cpu_weight: int = within(100, 1, 10000)
    # cores that all commands of other hosts may use together; needs cgroups. 0 = no limit
    cpus: float = within(0.0, 0.0, 65536.0)
