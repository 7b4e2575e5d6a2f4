"""The sections of lbd.toml that say who may do what on a host."""

from dataclasses import dataclass

from lbd.config_field import Section, listed, one_of, within


@dataclass(frozen=True, slots=True)
class UsersConfig(Section):
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
    # who sees and touches everybody's jobs, drains hosts, changes parameters; root always does
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # the same for their members


KEEPERS = ("own", "apart")


@dataclass(frozen=True, slots=True)
class DaemonsConfig(Section):
    # whom `lbd up`, started by root, runs LIM, LBM and dispatcher as; "" = lbd, "root" = root. The
    # keeper stays root
    user: str = ""
    # whether the LBM starts its keeper, or `lbd keeper` was started before; `lbd up` sees to it
    keeper: str = one_of(KEEPERS)


OWNER_IS_BACK = ("keep", "nice", "suspend", "evict")


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
    # when: "mon-fri 18:00-08:00", "sat,sun", "22:00-06:00", or five fields as in a crontab
    when: tuple[str, ...] = listed("mon-fri 18:00-08:00", "sat,sun")
    slots: int = within(0, 0, 65536)  # foreign jobs at once, if fewer than lbm.slots; 0 = those
    # no new commands while the load index here is above this; 0 = whatever it is
    load_ceiling: float = within(0.0, 0.0, 10000.0)
    # the owner is back while a terminal here was used within this; 0 = terminals do not count
    owner_idle_s: float = within(0.0, 0.0, 86400.0)
    owners: tuple[str, ...] = ()  # whose terminals count; none named = everybody's
    # the owner is back while others than foreign jobs keep more cores busy than this; 0 = never
    owner_load: float = within(0.0, 0.0, 65536.0)
    # then no new commands come, and those that run: keep on, run at the lowest priority, stand
    # still until the owner is gone, or go to another host
    owner_is_back: str = one_of(OWNER_IS_BACK)
    # how long the owner is there before commands go. Those that must not be begun again (they have
    # printed, read, or --no-restart) stand still instead
    evict_grace_s: float = within(10.0, 0.0, 86400.0)


@dataclass(frozen=True, slots=True)
class LimitsConfig(Section):
    """What commands of other hosts may use here; by cgroups where they can be had."""

    # memory of one command with all it starts; --mem may ask for less. 0 = no limit, here and below
    job_memory_bytes: int = within(0, 0, 1 << 62)
    memory_bytes: int = within(0, 0, 1 << 62)  # of all of them together; only by cgroup
    job_processes: int = within(0, 0, 1 << 22)  # processes and threads of one command
    # CPU time they get together where others want it too: 100 = as much as any other group of
    # programs. Without a CPU cgroup nice values come near it
    cpu_weight: int = within(100, 1, 10000)
    cpus: float = within(0.0, 0.0, 65536.0)  # cores they may use together at most; only by cgroup
