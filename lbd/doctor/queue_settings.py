"""Whether a dispatcher can go by the settings of the queue: each alone may be right, and all of
them not. One that cannot goes on by those before, and does not start again."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lbd.config.cluster import overlaid
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.dispatch.core.configured import fault_of_queue
from lbd.dispatch.core.disciplines.registry import TIERED
from lbd.doctor.checks import FAULT, Check

CUTOFFS = "tags.cutoffs_s"


def queue_base(daemons: Daemons) -> Config:
    """What the settings for all hosts are laid over. That of a dispatcher elsewhere we do not know:
    as built in."""
    hosts, _ = daemons.queue()
    return Config() if hosts and daemons.config.host.name not in hosts else daemons.config


def fault_with(base: Config, saved: Mapping[str, str], changed: str = "") -> str:
    """Why they cannot be, or "". Cutoffs that are changed have to be right under any mode."""
    config = overlaid(base, saved)[0]
    if changed == CUTOFFS and config.tags.cutoffs_s and config.dispatch.mode not in TIERED:
        config = replace(config, dispatch=replace(config.dispatch, mode=TIERED[0]))
    return fault_of_queue(config)


def queue_settings(daemons: Daemons) -> Iterator[Check]:
    base, saved = queue_base(daemons), daemons.saved()
    if not daemons.queue()[0] or not (fault := fault_with(base, saved)):
        return
    one_by_one = sorted(saved, key=lambda name: (name not in fault, name))  # those it names first
    guilty = next((name for name in one_by_one if not fault_with(base, without(saved, name))), "")
    if guilty:
        fix = f"set {guilty} right, or take it back: `lbctl config set {guilty} --unset --cluster`"
    else:
        fix = f"correct {fault.partition(':')[0]} in {base.path or 'lbd.toml'}, or for all hosts"
    says = f"the dispatcher takes none of the changes to them, and cannot be restarted: {fault}"
    yield Check("queue settings", FAULT, says, fix)


def without(saved: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: text for other, text in saved.items() if other != name}
