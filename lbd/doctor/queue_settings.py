"""Checks whether a dispatcher can apply the settings of the queue: each may be valid while the
combination is not. A dispatcher that cannot keeps the earlier ones, and cannot be restarted."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from lbd.config.cluster import overlaid
from lbd.config.dispatch import HEARTBEAT_S_MAX, HEARTBEATS_PER_LEASE
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.dispatch.core.configured import fault_of_queue
from lbd.dispatch.core.disciplines.registry import TIERED
from lbd.doctor.checks import FAULT, Check
from lbd.text.units import duration_text

CUTOFFS = "tags.cutoffs_s"
LEASE_S = "dispatch.lease_s"
OF_THE_QUEUE = ("dispatch.", "tags.")
PICKED_UP_S = 2  # the time until what all hosts have is in force


def queue_base(daemons: Daemons) -> Config:
    """Returns the configuration that the settings for all hosts are laid over. That of a dispatcher
    on another host is unknown, so the defaults are assumed."""
    hosts, _ = daemons.queue()
    return Config() if hosts and daemons.config.host.name not in hosts else daemons.config


def when_in_force(
    daemons: Daemons, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> str:
    """Says when a setting for all hosts is in force. `before`: those that were saved until then."""
    if name not in after:
        says = "each host's lbd.toml applies again"
    else:
        is_queue = name.startswith(OF_THE_QUEUE)
        says = "the dispatcher picks it up" if is_queue else "in force"
        says += f" within {PICKED_UP_S} s"
    if name != LEASE_S:
        return says
    return f"{says}; {when_leases_follow(queue_base(daemons), before, after)}"


def when_leases_follow(base: Config, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Says when running jobs have a changed lease: a longer one with the next heartbeat of their
    host, a shorter one once the old one has run out. `base`: as of `queue_base`."""
    old_s, new_s = (overlaid(base, saved)[0].dispatch.lease_s for saved in (before, after))
    is_assumed = not base.path and LEASE_S not in before
    assumed = f", if the old one was {duration_text(old_s)}" if is_assumed else ""
    if new_s < old_s:
        return f"jobs that run now keep the old lease for up to {duration_text(old_s)}{assumed}"
    within_s = math.ceil(PICKED_UP_S + min(old_s / HEARTBEATS_PER_LEASE, HEARTBEAT_S_MAX))
    return f"running jobs have the new lease within {duration_text(within_s)}{assumed}"


def fault_with(base: Config, saved: Mapping[str, str], changed: str = "") -> str:
    """Returns why the settings are invalid, or "". Changed cutoffs must be valid for any mode."""
    config = overlaid(base, saved)[0]
    if changed == CUTOFFS and config.tags.cutoffs_s and config.dispatch.mode not in TIERED:
        config = replace(config, dispatch=replace(config.dispatch, mode=TIERED[0]))
    return fault_of_queue(config)


def queue_settings(daemons: Daemons) -> Iterator[Check]:
    base, saved = queue_base(daemons), daemons.saved()
    if not daemons.queue()[0] or not (fault := fault_with(base, saved)):
        return
    # the ones named in the fault first
    one_by_one = sorted(saved, key=lambda name: (name not in fault, name))
    guilty = next((name for name in one_by_one if not fault_with(base, without(saved, name))), "")
    if guilty:
        fix = f"set {guilty} right, or take it back: `lbctl config set {guilty} --unset --cluster`"
    else:
        fix = f"correct {fault.partition(':')[0]} in {base.path or 'lbd.toml'}, or for all hosts"
    says = f"the dispatcher takes none of the changes to them, and cannot be restarted: {fault}"
    yield Check("queue settings", FAULT, says, fix)


def without(saved: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: text for other, text in saved.items() if other != name}
