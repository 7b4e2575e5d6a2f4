"""The section of lbd.toml about records of ended jobs, for `lbctl stats` and `lbctl advise`."""

from dataclasses import dataclass

from lbd.config.fields import Section, within


@dataclass(frozen=True, slots=True)
class StatsConfig(Section):
    # ended jobs on record; 0 = none. Beyond that, the users with the most lose their oldest
    max_rows: int = within(200_000, 0, 100_000_000)
    # size of usage.sqlite in host.state_dir; room is made by dropping the same jobs
    max_bytes: int = within(64 << 20, 1 << 19, 1 << 40)
    keep_days: float = within(90.0, 0.0, 36500.0)  # how long ended jobs stay on record
