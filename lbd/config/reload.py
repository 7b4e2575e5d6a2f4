"""Which settings `lbctl reload` takes up, while everything else waits for a restart."""

from dataclasses import replace

from lbd.config.schema import Config

RELOADED = ("admission", "limits", "resources", "host.features", "host.memory")


def is_reloaded(name: str) -> bool:
    """Of a setting, like "admission.slots"."""
    return name in RELOADED or name.partition(".")[0] in RELOADED


def reloaded(now: Config, found: Config) -> Config:
    """`now`, with these settings as they are in `found`."""
    for name in RELOADED:
        section, _, key = name.partition(".")
        part = getattr(found, section)
        if key:
            part = replace(getattr(now, section), **{key: getattr(part, key)})
        now = replace(now, **{section: part})
    return now
