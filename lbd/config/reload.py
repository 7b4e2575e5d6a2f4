"""Which settings `lbctl reload` applies; all others need a restart."""

from dataclasses import replace

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
