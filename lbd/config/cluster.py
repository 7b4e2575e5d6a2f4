"""Which settings of lbd.toml the cluster can set for every host. Pure.

Besides the algorithm and its parameters, which a LIM applies at run time, these are the queue's
(which hosts run its dispatcher, and everything in `[dispatch]` and `[tags]` that does not depend on
a host) and the names of resources.

They are kept in `Settings.saved`, in TOML notation, and override each host's lbd.toml.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from lbd.config.dispatch import DispatchConfig, TagsConfig
from lbd.config.fields import fault_of
from lbd.config.resources import check_names
from lbd.config.schema import ClusterConfig, Config
from lbd.errors import ConfigError

SECTIONS = {"dispatch": DispatchConfig, "tags": TagsConfig}
HOST, STANDBY, CLOSED = "dispatch.host", "dispatch.standby", "dispatch.closed"
QUEUE = (HOST, STANDBY, CLOSED)  # set with `lbctl queue`
# A store's URL may have a password, and its path is valid on its host only; the port must match the
# firewall.
OWN = {"dispatch.store", "dispatch.port"}
RESOURCES = "cluster.resources"
SHARED = {
    f"{section}.{item.name}": item
    for section, kind in SECTIONS.items()
    for item in fields(kind)
    if f"{section}.{item.name}" not in OWN
} | {RESOURCES: next(item for item in fields(ClusterConfig) if item.name == "resources")}
TEXT_CHARS_MAX = 200  # of one value, as sent
SAVED_MAX = 128  # settings kept over restarts


def is_shared(name: str) -> bool:
    return name in SHARED


def fault_of_shared(name: str, value: object) -> str:
    """Returns why the setting cannot have this value, or ""."""
    fault = fault_of(SHARED[name], value)
    if name == RESOURCES and not fault and isinstance(value, list | tuple):
        try:
            check_names(value)
        except ValueError as problem:
            return str(problem)
    return fault


def shared_text(name: str, value: object) -> str:
    """Returns the value in TOML notation. Raises ConfigError."""
    if name in OWN:
        raise ConfigError(f"{name} is set per host: set it in lbd.toml")
    if name not in SHARED:
        raise ConfigError(f"{name} cannot be set for the whole cluster")
    if fault := fault_of_shared(name, value):
        raise ConfigError(f"{name}: {fault}")
    parts = list(value) if isinstance(value, list | tuple) else [value]
    text = json.dumps(parts if isinstance(value, list | tuple) else value, ensure_ascii=False)
    if len(text) > TEXT_CHARS_MAX or not "".join(map(str, parts)).isprintable():
        raise ConfigError(f"{name}: at most {TEXT_CHARS_MAX} printable characters")
    return text


def overlaid(config: Config, saved: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Returns the configuration with the settings saved for all hosts. Invalid ones, for example
    from another release, are left out, with a sentence on each."""
    faults = []
    for name in sorted(filter(is_shared, saved)):
        section, _, key = name.partition(".")
        value = read(saved[name])
        if fault := fault_of_shared(name, value):
            faults.append(f"{name} = {saved[name]}, set for all hosts, is ignored: {fault}")
            continue
        if SHARED[name].type is float and isinstance(value, int):
            value = float(value)
        kept = tuple(value) if isinstance(value, list) else value
        own = replace(getattr(config, section), **{key: kept})
        config = replace(config, **{section: own})
    return config, faults


def queue_hosts(saved: Mapping[str, str]) -> tuple[str, ...] | None:
    """Returns the hosts that run the dispatcher, in order; None if each host's lbd.toml decides."""
    if HOST not in saved:
        return None
    host, standby = read(saved[HOST]), read(saved.get(STANDBY, "[]"))
    if not isinstance(host, str) or not host:
        return ()
    others = standby if isinstance(standby, list) else []
    return tuple(dict.fromkeys([host, *(str(one) for one in others)]))


def read(text: str) -> object:
    """Reads a value from another host, which may be invalid: then returns None."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def placed(hosts: Sequence[str]) -> dict[str, object]:
    """Returns the settings that let those hosts run the dispatcher; none of them for no queue."""
    first, others = (hosts[0], list(hosts[1:])) if hosts else ("", [])
    return {HOST: first, STANDBY: others, CLOSED: False}
