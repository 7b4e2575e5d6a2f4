"""The discipline, the rules and the terms of the configuration, if they are compatible."""

from lbd.config.dispatch import MODES
from lbd.config.schema import Config
from lbd.dispatch.core.cutoffs import highest
from lbd.dispatch.core.discipline import Discipline
from lbd.dispatch.core.disciplines import registry
from lbd.dispatch.core.disciplines.tiers import spread_tiers
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.shares import Rules, read_name_limits
from lbd.errors import ConfigError


def fault_of_queue(config: Config) -> str:
    """Returns why no dispatcher can use these settings, or ""."""
    try:
        make_discipline(config)
        rules_of(config)
    except ConfigError as problem:
        return str(problem)
    return ""


def make_discipline(config: Config) -> Discipline:
    """Raises ConfigError."""
    mode = next(mode for mode in MODES if mode == config.dispatch.mode)
    tags = config.tags
    try:
        spread_tiers("", [], 1, tags.tiers)
        if mode not in registry.TIERED or tags.cutoffs_s:
            return registry.make(mode, tags.cutoffs_s, tags.work_conserving)
        if tags.tiers and max(map(highest, tags.tiers)) < 2:
            raise ValueError(f"{mode} needs at least two tiers, but all hosts are in the first")
        return registry.tiered(mode, (), tags.work_conserving)
    except ValueError as problem:
        raise ConfigError(f"tags.cutoffs_s, tags.tiers: {problem}") from None


def rules_of(config: Config) -> Rules:
    """Raises ConfigError."""
    own = config.dispatch
    try:
        name_jobs = read_name_limits(own.name_jobs)
    except ValueError as problem:
        raise ConfigError(f"dispatch.name_jobs: {problem}") from None
    return Rules(
        own.priorities,
        own.fair_share_s,
        own.user_slots,
        name_jobs,
        own.interleave_arrays,
        own.backfill if own.mode == "fcfs" else "off",
        own.backfill_risk,
    )


def terms_of(config: Config) -> Terms:
    own = config.dispatch
    return Terms(
        own.lease_s, own.crash_limit, own.host_failures, own.aside_s, own.aside_max_s,
        own.attempts_max, own.gang_hold_s, own.gang_drain_s, own.begin_timeout_s,
    )  # fmt: skip
