"""Edits this host's lbd.toml: preserves comments and order, and replaces the file atomically. A
host that becomes a member of a cluster gets what is missing; existing settings stay."""

import json
import os
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from lbd.config.cluster import is_shared
from lbd.config.load import (
    SYSTEM_FILE,
    Given,
    absent_file,
    load,
    load_new,
    own_file,
    parse,
    read_text,
    settle,
)
from lbd.config.reload import is_own_too
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.starting import start_of_metrics
from lbd.doctor.queue_settings import OF_THE_QUEUE
from lbd.errors import ConfigError
from lbd.keeper.gate import BY_KEEPER
from lbd.local.own_lab import MADE_BY
from lbd.process.whole_file import write_whole

Keys = dict[tuple[str, str], str]  # (section, key) -> text
JOIN = ("cluster", "join")
LISTENER = "metrics.listen"


@dataclass(frozen=True, slots=True)
class OwnConfig:
    config: Config  # after the change
    file: Path
    is_fresh: bool  # the file does not exist, or holds only comments
    lacking: Keys


def own_config(path: str | None, wanted: Keys, otherwise: Keys) -> OwnConfig:
    """Returns the configuration with `wanted`, which the caller gave, and `otherwise`, its
    defaults.

    Raises ConfigError, also if the file contradicts `wanted` or cannot be written.
    """
    fresh = absent_file(path)
    file = fresh or Path(load(path).path)
    has = {} if fresh else set_in(file)
    for (section, key), value in wanted.items():
        if has.get((section, key), value) != value:
            there = has[section, key]
            how = shlex.join(["lbctl", "config", "set", f"{section}.{key}", value])
            raise ConfigError(
                f"{file} has {section}.{key} = {there!r}, not {value!r}; `{how}` changes it"
            )
    lacking = {key: value for key, value in {**otherwise, **wanted}.items() if key not in has}
    overrides = [f"{section}.{key}={json.dumps(v)}" for (section, key), v in lacking.items()]
    config = load_new(overrides) if fresh else load(path, overrides)
    if lacking:
        need_writable(file.parent)
    return OwnConfig(config, file, fresh is not None, lacking)


def set_in(file: Path) -> Keys:
    """Returns the file's settings. An entry for this host in its list of hosts sets the address."""
    config = load(str(file))
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    found = {
        (section, key): str(value)
        for section, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    }
    listed = {entry.name: entry.address for entry in config.cluster.hosts}
    if config.host.name in listed:
        found["host", "address"] = listed[config.host.name]
    if listed:
        found.setdefault(("cluster", "join"), "")
    return found


def complete(own: OwnConfig, more: Keys) -> bool:
    """Writes the missing settings, including those of `more`. Returns whether there were any. The
    host named by an earlier `lbctl join` is replaced."""
    has = {} if own.is_fresh else set_in(own.file)
    stays = {key for key in has if key != JOIN or has[key] in ("", more.get(JOIN))}
    lacking = {**{k: v for k, v in more.items() if k not in stays}, **own.lacking}
    if not lacking:
        return False
    put_config(own.file, with_settings(text_of(own.file), lacking, str(own.file)))
    return True


def text_of(file: Path) -> str:
    """Returns the file's present text, even if it holds only comments. Raises ConfigError."""
    return read_text(file) if file.exists() else ""


def with_settings(text: str, settings: Mapping[tuple[str, str], object], source: str) -> str:
    """Returns the text of lbd.toml with these values and everything else unchanged; None removes a
    setting. Raises ConfigError if the text is not TOML."""
    for section, found in parse(text, source).items():
        if not isinstance(found, dict):
            raise ConfigError(f"{source}: {section} is a section; write [{section}] above its keys")
    document = tomlkit.parse(text)
    for (section, key), value in settings.items():
        if value is not None:
            document.setdefault(section, tomlkit.table())[key] = value
        elif key in document.get(section, ()):
            table = document[section]
            del table[key]
            if isinstance(table, tomlkit.items.Table) and not table.as_string().strip():
                del document[section]  # the section has no comment left either
    return tomlkit.dumps(document)


def checked(text: str, file: Path) -> Config:
    """Parses the text as the file's new content. Raises ConfigError."""
    given = Given(str(file), text)
    for section, content in parse(text, str(file)).items():
        given.add_section(section, content)
    return settle(given.config(), given)


def put_config(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        write_whole(file, text.encode(), mode, is_durable=True)
    except OSError as problem:
        raise ConfigError(f"{file}: {problem.strerror}") from problem


def is_labs(file: Path) -> bool:
    """Returns whether `lbd lab` has made the file. All users of that lab's host go by it."""
    return text_of(file).startswith(MADE_BY)


def copied_from(config: Config) -> Path | None:
    """Returns the file that a lab's daemons read, if the configuration is from a copy of it, which
    a user may have who cannot write there; None otherwise."""
    file, theirs = Path(config.path), Path(config.host.runtime_dir).parent / "lbd.toml"
    is_copy = os.path.realpath(file) != os.path.realpath(theirs) and is_labs(file)
    return theirs if is_copy else None


def after(name: str, daemons: Daemons) -> str:
    """Returns when a setting that `lbctl reload` does not apply takes effect."""
    if (theirs := copied_from(daemons.config)) is not None:
        own = (
            "at once for whoever has LBD_CONFIG set to this file" if is_own_too(name) else "nowhere"
        )
        return f"{own}; the daemons read {theirs}"
    if name == LISTENER and not daemons.socket("metrics").exists():
        return f"once `lbd metrics` runs: {start_of_metrics(daemons)}"
    if name.startswith(OF_THE_QUEUE):
        at_once = "; with --cluster at once, for all hosts" if is_shared(name) else ""
        return f"after `lbctl restart` on the dispatcher's host{at_once}"
    if is_own_too(name):
        at_once = "at once (in lbsh: from its next start on)"
        if is_labs(Path(daemons.config.path)):
            return f"for everybody who acts from this host {at_once}"
        return f"for your own commands {at_once}, for those of others after `lbctl restart`"
    keeper = " and `systemctl restart lbd-keeper`, which ends what runs here"
    return f"after `lbctl restart`{keeper if name in BY_KEEPER else ''}"


def way_without(name: str, file: Path) -> str:
    """Returns what a user who may not write the file can do about the setting; "" for nothing."""
    if not is_own_too(name):
        return ""
    if is_labs(file):
        return "; ask who started the lab, or set LBD_CONFIG to a copy of lbd.toml with your list"
    return f"; for your own commands write it into {own_file()}" if file == SYSTEM_FILE else ""


def need_writable(path: Path, otherwise: str = "") -> None:
    """Raises ConfigError, which ends with `otherwise`."""
    there = next(p for p in (path, *path.parents) if p.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        who = "only root and the daemons' user can write there"
        raise ConfigError(f"{there}: permission denied; {who}{otherwise}")
