"""The sections of lbd.toml that say who may do what on a host."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from lbd.config.fields import Section, listed, one_of, within


@dataclass(frozen=True, slots=True)
class UsersConfig(Section):
    """The accounts of this host that commands of other hosts run as."""

    # as whom a command of another host runs here: "name" = the account of that name, "uid" = of
    # that number, "single:NAME" = all as NAME
    map: str = "name"
    allow_root: bool = False  # run commands of root that come from other hosts
    # accounts below are the system's and run no commands; nor do nobody and 60514 to 65535
    min_uid: int = within(1000, 1, 1 << 31)
    # system accounts, and those that may not log in, that may all the same; * and ? as in names
    allow: tuple[str, ...] = ()
    unknown: str = ""  # the account for users this host does not know; "" = they are refused
    # commands of other hosts never gain rights by exec: sudo, su and setuid programs do not work
    no_new_privileges: bool = False


@dataclass(frozen=True, slots=True)
class AdminConfig(Section):
    """Who is an administrator."""

    # who sees and touches everybody's jobs, drains hosts, changes parameters; root always does
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # the same for their members
    # hosts whose own administrators, root among them, may act on plain commands of this host's
    # users, see everybody's, also what has ended here, and, where the dispatcher is, act on queued
    # jobs of other hosts; * and ? as in names. Hosts that may run the dispatcher always act on
    # queued jobs
    hosts: tuple[str, ...] = ()
    # hosts whose administrators may change settings for the whole cluster; * and ? as in names.
    # Empty: every host. The same on every host: each believes those that its own lbd.toml names,
    # by their signature, and nothing that is not signed. Hosts without certificates ignore it
    settings_hosts: tuple[str, ...] = ()

    def may_set(self, host: str) -> bool:
        """Whether that host's administrators may change settings for the whole cluster."""
        names = self.settings_hosts
        return not names or any(fnmatchcase(host, pattern) for pattern in names)

    def are_on(self, host: str) -> bool:
        """Whether that host's word for its administrators counts for jobs of others."""
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
    """The owner's rules for commands of other hosts. An empty list says nothing."""

    # whose commands may run here; names and groups are those of this host's accounts. Patterns with
    # * and ?, as in all these lists
    users: tuple[str, ...] = ()
    deny_users: tuple[str, ...] = ()  # whose never; what is denied overrules what is allowed
    groups: tuple[str, ...] = ()  # as `users`, by group; a user of either list may
    deny_groups: tuple[str, ...] = ()  # as `deny_users`
    origins: tuple[str, ...] = ()  # from which hosts; no other reads what queued jobs print here
    deny_origins: tuple[str, ...] = ()  # from which never
    # what may run here, by the real path of the program, links resolved: "/usr/bin/gcc-*"
    programs: tuple[str, ...] = ()
    # what never does. A user can copy a program: to keep something in, say what may run
    deny_programs: tuple[str, ...] = ()
    # when commands of other hosts may come, by this host's clock and time zone: "sat,sun",
    # "22:00-06:00", "mon-fri 18:00-08:00" (past midnight the day is the one on which it began), or
    # five fields as in a crontab
    when: tuple[str, ...] = listed("mon-fri 18:00-08:00", "sat,sun")
    # commands of other hosts, and jobs of the queue, that run here at once, if fewer than
    # lbm.slots; also those sent by name (-H). 0 = lbm.slots
    slots: int = within(0, 0, 65536)
    # no new commands while the load index here is above this; 0 = whatever it is
    load_ceiling: float = within(0.0, 0.0, 10000.0)
    # no new commands while all tasks here stood still for want of memory for more than this share
    # of the last ten seconds, in percent (PSI, full avg10), and less than a quarter of it is left;
    # 0 = whatever it is
    memory_pressure: float = within(20.0, 0.0, 100.0)
    # the owner is back while a terminal here, or a keyboard or mouse of this host, was used within
    # this; 0 = these do not count
    owner_idle_s: float = within(0.0, 0.0, 86400.0)
    owners: tuple[str, ...] = ()  # whose terminals count; none named = everybody's
    # the owner is back while programs other than commands of other hosts keep more cores busy than
    # this; 0 = never
    owner_load: float = within(0.0, 0.0, 65536.0)
    # then no new commands come, and those that run: keep running, run at the lowest priority, are
    # suspended until the owner is away, begin again on another host, or are suspended, and moved
    # once that costs less than waiting longer ("decide")
    owner_is_back: str = one_of(OWNER_IS_BACK)
    # how long the owner is back before commands go. Those that must not be started again (they have
    # printed or read, or --no-restart) are suspended instead
    evict_grace_s: float = within(10.0, 0.0, 86400.0)
    # how long "decide" waits: what would have been best so far on this cluster's hosts (trials); by
    # how long this owner stays and the work that moving loses (work), or the thresholds of He et
    # al., which weigh time; for ever if a move costs a step or more (myopic); as their full process
    # finds best in each step, which counts the other hosts as well (optimal); or decide_after_s
    decide_by: str = one_of(DECIDE_BY)
    # how long a command waits for the owner to leave before it is moved, where decide_by = "timer"
    decide_after_s: float = within(600.0, 0.0, 86400.0)
    # a step of the chances that are learnt: here or away a step later, by the hour of the week. A
    # change counts when the LBM is started again
    owner_step_s: float = within(60.0, 1.0, 3600.0)


@dataclass(frozen=True, slots=True)
class LimitsConfig(Section):
    """What commands of other hosts may use here; by cgroups where they can be had."""

    # memory of one command of another host with all it starts; --mem may ask for less. 0 = no limit
    job_memory_bytes: int = within(0, 0, 1 << 62)
    # memory of all commands of other hosts together; only by cgroup. 0 = no limit
    memory_bytes: int = within(0, 0, 1 << 62)
    # processes and threads of one command of another host. 0 = no limit
    job_processes: int = within(0, 0, 1 << 22)
    # CPU time that all commands of other hosts get together where programs of this host want it,
    # too: 100 = as much as any other group of programs. Without a CPU cgroup nice values come near
    # it
    cpu_weight: int = within(100, 1, 10000)
    # cores that all commands of other hosts may use together; only by cgroup. 0 = no limit
    cpus: float = within(0.0, 0.0, 65536.0)
