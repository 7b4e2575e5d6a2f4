"""Which settings `lbctl reload` applies; all others need a restart."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from lbd.config.schema import Config

RELOADED = ("admission", "limits", "resources", "host.features", "host.memory")


def is_reloaded(name: str) -> bool:
    """Returns whether a setting, like "admission.slots", is one of them."""
    return name in RELOADED or name.partition(".")[0] in RELOADED


def reloaded(now: Config, found: Config) -> Config:
    """Returns `now` with these settings taken from `found`."""
    for name in RELOADED:
        section, _, key = name.partition(".")
        part = getattr(found, section)
        if key:
            part = replace(getattr(now, section), **{key: getattr(part, key)})
        now = replace(now, **{section: part})
    return now


def changed_names(before: Config, now: Config) -> Iterator[str]:
    """Yields the settings in which they differ, like "admission.slots"."""
    for section in fields(Config):
        was, found = getattr(before, section.name), getattr(now, section.name)
        if not is_dataclass(was):
            continue
        for one in fields(was):
            if getattr(was, one.name) != getattr(found, one.name):
                yield f"{section.name}.{one.name}"


def is_own_too(name: str) -> bool:
    """Returns whether each user may have such a list, which lbsh and lbctl tell the LBM."""
    return name in ("eligibility.always", "eligibility.never", "eligibility.features")
