"""The sections of lbd.toml that say who may do what on a host."""

from dataclasses import dataclass

from lbd.config_field import Section, one_of, within


@dataclass(frozen=True, slots=True)
class UsersConfig(Section):
    # as whom a command of another host runs here: "name" = the account of that name, "uid" = of
    # that number, "single:NAME" = all as NAME
    map: str = "name"
    allow_root: bool = False  # run commands of root that come from other hosts
    # accounts below are the system's and run no commands; nor do nobody and 60514 to 65535
    min_uid: int = within(1000, 1, 1 << 31)
    allow: tuple[str, ...] = ()  # system accounts that may all the same; * and ? as in file names
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
    # whom `lbd up`, started by root, runs LIM and LBM as; "" = lbd where that account exists, else
    # root. The keeper stays root
    user: str = ""
    # whether the LBM starts its keeper, or `lbd keeper` was started before; `lbd up` sees to it
    keeper: str = one_of(KEEPERS)
