"""The sections of lbd.toml that say who may do what on a host."""

from dataclasses import dataclass

from lbd.config_field import Section


@dataclass(frozen=True, slots=True)
class UsersConfig(Section):
    allow_root: bool = False  # run commands of root that come from other hosts
