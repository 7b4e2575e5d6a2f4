"""Reads lbd.toml and `--set section.key=value` into a `Config`.

Every error is one line: file and line, key, what is allowed, and the nearest correct spelling.
tomllib keeps no positions, so a key's line is searched for in the text.
"""

import os
import socket
import tomllib
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from pathlib import Path

from lbd.config.fields import as_float, fault_of, shown
from lbd.config.forms import FORMS
from lbd.config.metrics import listen_address
from lbd.config.resources import with_amount
from lbd.config.schema import Config, HostEntry
from lbd.errors import ConfigError
from lbd.launch.own_places import is_ours_alone
from lbd.text.host_name import NAME_RULE, is_host_name
from lbd.text.one_line import one_line
from lbd.text.spelling import hint

Table = dict[str, object]
SYSTEM_FILE = Path("/etc/lbd/lbd.toml")
SYSTEM_DIRS = ("/run/lbd", "/var/lib/lbd")  # for root's daemons, and for users of that file
LISTS_ONLY = {"eligibility"}
RESOURCES = ("resources", "amounts")


def load(path: str | None = None, overrides: Sequence[str] = ()) -> Config:
    """Returns the configuration in force: file, then overrides ("section.key=value"), then
    defaults.

    Without `path`: $LBD_CONFIG, ~/.config/lbd/lbd.toml, /etc/lbd/lbd.toml, else built-in values. A
    user's file with nothing but [eligibility] has no settings of hosts: it is laid over /etc's.

    Raises ConfigError, one line.
    """
    given = read_given(find_file(path))
    named = path or os.environ.get("LBD_CONFIG")
    if not named and given.sections == LISTS_ONLY and os.path.isfile(SYSTEM_FILE):
        own, given = given, read_given(SYSTEM_FILE)
        given.lay_over(own)
    for override in overrides:
        given.add_override(override)
    return settle(replace(given.config(), overrides=tuple(overrides)), given)


def load_new(overrides: Sequence[str]) -> Config:
    """Returns the configuration without any file, even if files exist. Raises ConfigError."""
    given = Given("", "")
    for override in overrides:
        given.add_override(override)
    return settle(given.config(), given)


def absent_file(path: str | None) -> Path | None:
    """Returns the file that `load` would have read if it existed; None if it read one.

    A file with nothing but comments, as packages install it, counts as missing.
    """
    named = path or os.environ.get("LBD_CONFIG")
    if named and not os.path.exists(named):
        return Path(named)
    if named or find_file(None) is not None:
        found = find_file(path)
        return found if found and not parse(read_text(found), str(found)) else None
    return SYSTEM_FILE if os.geteuid() == 0 else own_file()


def own_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "lbd/lbd.toml"


def read_given(source: Path | None) -> "Given":
    text = read_text(source) if source else ""
    given = Given(str(source) if source else "", text)
    for section, table in parse(text, str(source)).items():
        given.add_section(section, table)
    return given


def find_file(path: str | None) -> Path | None:
    """Returns the file to read; None = no file anywhere. Raises ConfigError if a named one is
    missing."""
    named = path or os.environ.get("LBD_CONFIG")
    if named:
        if os.path.isfile(named):
            return Path(named)
        origin = "--config" if path else "$LBD_CONFIG"
        why = "a directory, not a file" if os.path.isdir(named) else "no such file"
        if not path and not os.path.lexists(named):
            why += "; if it belonged to a lab that no longer exists, `unset LBD_CONFIG`"
        raise ConfigError(f"{origin} {named}: {why}")
    for candidate in (own_file(), SYSTEM_FILE):
        # Also false where we may not look, as in another user's home.
        if os.path.isfile(candidate) and (candidate == SYSTEM_FILE or is_for_us(candidate)):
            return candidate
    return None


def is_for_us(path: Path) -> bool:
    """Returns whether root may use the file: root can have another user's HOME, for example by
    `sudo -E`, and that user must not decide what root runs."""
    return os.geteuid() != 0 or is_ours_alone(str(path))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}: not UTF-8 text (byte {problem.start})") from problem


def parse(text: str, source: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        reason, _, place = str(problem).partition(" (at ")
        lines = text.splitlines()
        digits = "".join(c for c in place.partition(",")[0] if c.isdigit())
        line = int(digits or max(1, len(lines)))
        quoted = quoted_hint(lines[line - 1]) if line <= len(lines) else ""
        raise ConfigError(f"{source}:{line}: not TOML: {reason}{quoted}") from problem
    # such as deep nesting, or a number with too many digits
    except (RecursionError, ValueError) as problem:
        raise ConfigError(f"{source}: not a configuration: {one_line(str(problem), 80)}") from None


def quoted_hint(line: str) -> str:
    """Returns what to add where a text was written without quotes, the commonest mistake."""
    key, _, value = line.partition("=")
    value = value.partition("#")[0].strip()
    if not value or value[0] in "\"'[{":
        return ""
    meant = f'{key.strip()} = "{value}"'
    try:
        tomllib.loads(meant)
    except tomllib.TOMLDecodeError:
        return ""
    return f"; text needs quotes: {one_line(meant, 80)}"


class Given:
    """The values set explicitly, by section and key, each checked when it is added, and the place
    where it was set: "/etc/lbd/lbd.toml:12" or "--set lim.port=x"."""

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self._lines = text.splitlines()
        self._sections = {f.name: f.type for f in fields(Config) if is_dataclass(f.type)}
        self._values: dict[tuple[str, str], tuple[str, object]] = {}

    @property
    def sections(self) -> set[str]:
        return {section for section, _ in self._values}

    def lay_over(self, other: "Given") -> None:
        """Overlays `other`, whose values take precedence."""
        self._values.update(other._values)

    def add_section(self, section: str, table: object) -> None:
        place = f"{self.source}:{line_of(self._lines, section, '')}"
        if section not in self._sections:
            raise ConfigError(
                f"{place}: [{section}]: unknown section; {hint(section, self._sections)}"
            )
        if not isinstance(table, dict):
            raise ConfigError(f"{place}: {section} is a section; write [{section}] above its keys")
        for key, value in table.items():
            line = line_of(self._lines, section, key)
            self._add(section, key, value, f"{self.source}:{line}")

    def add_override(self, override: str) -> None:
        """Adds one "section.key=value"; the value is TOML, or else a bare word."""
        name, equals, raw = override.partition("=")
        section, dot, key = name.strip().partition(".")
        origin = f"--set {override}"
        if not (equals and dot and key):
            raise ConfigError(f"{origin}: must be section.key=value")
        if section not in self._sections:
            raise ConfigError(f"{origin}: unknown section; {hint(section, self._sections)}")
        self._add(section, key, toml_value(raw.strip()), origin)

    def _add(self, section: str, key: str, value: object, place: str) -> None:
        if section == "resources":
            return self._add_resource(key, value, place)
        known = fields_of(self._sections[section])
        if key not in known:
            raise ConfigError(f"{place}: {section}.{key}: unknown key; {hint(key, known)}")
        if (section, key) == ("cluster", "hosts"):
            value = host_entries(value, place, self._lines)
        elif fault := fault_of(known[key], value):
            raise ConfigError(f"{place}: {section}.{key}: {fault}")
        if known[key].type is float and type(value) is int:
            value = as_float(value)
        if isinstance(value, list):
            value = tuple(value)
        self._values[section, key] = place, value

    def _add_resource(self, name: str, value: object, place: str) -> None:
        """Adds a resource of any name; the section is stored as one value with all of them."""
        _, amounts = self._values.get(RESOURCES, ("", ()))
        try:
            found = with_amount(amounts, name, value)  # type: ignore[arg-type]  # made below
        except ValueError as problem:
            raise ConfigError(f"{place}: resources.{name}: {problem}") from None
        self._values[RESOURCES] = place, found

    def config(self) -> Config:
        config = Config(path=self.source)
        for (section, key), (_, value) in self._values.items():
            changed = replace(getattr(config, section), **{key: value})
            config = replace(config, **{section: changed})
        return config

    def place(self, section: str, key: str) -> str | None:
        """Returns where the value was set, or None if it was not."""
        found = self._values.get((section, key))
        return found[0] if found else None


def fields_of(kind: object) -> "dict[str, Field[object]]":
    return {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # a section's class


def toml_value(raw: str) -> object:
    try:
        table = tomllib.loads(f"value = {raw}")
    except (ValueError, RecursionError):
        return raw
    return table["value"] if len(table) == 1 else raw


def host_entries(value: object, place: str, lines: Sequence[str]) -> tuple[HostEntry, ...]:
    """Returns cluster.hosts, checked. Raises ConfigError."""
    source = place.rpartition(":")[0]
    place = f"{place}: cluster.hosts"
    example = '{name = "h1", address = "10.0.0.1", lim_port = 7901, lbm_port = 7902}'
    if not isinstance(value, list):
        raise ConfigError(f"{place}: {shown(value)} is not a list of tables like {example}")
    entries: dict[str, HostEntry] = {}
    known = fields_of(HostEntry)
    for number, table in enumerate(value, 1):
        where = f"{place}: entry {number}"
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: {shown(table)} is not a table like {example}")
        for key, item in table.items():
            line = line_in_entry(lines, number, key)
            here = f"{source}:{line}: cluster.hosts: entry {number}" if line else where
            if key not in known:
                raise ConfigError(f"{here}: {key}: unknown key; {hint(key, known)}")
            if fault := fault_of(known[key], item):
                raise ConfigError(f"{here}: {key}: {fault}")
        missing = [k for k, f in known.items() if f.default is MISSING and not table.get(k)]
        if missing:
            raise ConfigError(f"{where}: no {missing[0]}; write it like {example}")
        entry = HostEntry(**table)
        if not is_host_name(entry.name):
            raise ConfigError(f"{where}: name: {shown(entry.name)} {NAME_RULE}")
        if entry.name in entries:
            raise ConfigError(f'{where}: another entry is named "{entry.name}"')
        entries[entry.name] = entry
    return tuple(entries.values())


def settle(config: Config, given: Given) -> Config:
    """Fills in what depends on this machine or on the list of hosts; refuses contradictions."""
    host = config.host
    name = host.name or socket.gethostname().partition(".")[0] or "localhost"
    listed = {entry.name: entry for entry in config.cluster.hosts}.get(name)
    if listed is not None:
        pairs = (("host", "address", listed.address), ("lim", "port", listed.lim_port),
                 ("lbm", "port", listed.lbm_port))  # fmt: skip
        for section, key, value in pairs:
            place = given.place(section, key)
            mine = getattr(getattr(config, section), key)
            if place and mine != value:
                says = f"{shown(mine)}, but cluster.hosts gives {name} {shown(value)}"
                raise ConfigError(f"{place}: {section}.{key}: {says}; remove one of them")
        host = replace(host, address=listed.address)
        config = replace(config, lim=replace(config.lim, port=listed.lim_port),
                         lbm=replace(config.lbm, port=listed.lbm_port))  # fmt: skip
    systems = given.source == str(SYSTEM_FILE) and not own_daemons()
    host = replace(
        host,
        name=name,
        address=host.address or "127.0.0.1",
        runtime_dir=host.runtime_dir or (SYSTEM_DIRS[0] if systems else default_runtime_dir()),
        state_dir=host.state_dir or (SYSTEM_DIRS[1] if systems else default_state_dir()),
    )
    config = replace(config, host=host)
    check_texts(config, given)
    check_order(config, given)
    return config


def check_texts(config: Config, given: Given) -> None:
    """Checks the formats of texts, which bounds cannot express. Raises ConfigError."""
    if not is_host_name(config.host.name):
        place = given.place("host", "name") or "this machine's host name"
        raise ConfigError(f"{place}: host.name: {shown(config.host.name)} {NAME_RULE}")
    for section, key in (("host", "runtime_dir"), ("host", "state_dir"), ("security", "key_file"),
                         ("stage", "root"), ("tls", "dir"), ("tls", "authority_dir")):  # fmt: skip
        value: str = getattr(getattr(config, section), key)
        if value and not os.path.isabs(value):
            place = given.place(section, key) or "environment"
            raise ConfigError(f"{place}: {section}.{key}: {shown(value)} must start with /")
    for section, key, check in FORMS:
        try:
            check(getattr(getattr(config, section), key))
        except ValueError as problem:
            place = given.place(section, key) or "built-in"
            raise ConfigError(f"{place}: {section}.{key}: {problem}") from None
    if config.metrics.listen:
        try:
            listen_address(config.metrics.listen, config.host.address)
        except ConfigError as problem:
            place = given.place("metrics", "listen") or "built-in"
            raise ConfigError(f"{place}: {problem}") from None


def check_order(config: Config, given: Given) -> None:
    """Checks the order of times: a host must be heard before it is late, and late before it is
    down. Raises ConfigError."""
    rising = (
        ("exchange_period_s", "stale_after_s"),
        ("keepalive_s", "stale_after_s"),
        ("stale_after_s", "down_after_s"),
    )
    for low, high in rising:
        if getattr(config.lim, low) > getattr(config.lim, high):
            place = given.place("lim", low) or given.place("lim", high) or "built-in"
            values = f"{getattr(config.lim, low):g} > {getattr(config.lim, high):g}"
            raise ConfigError(f"{place}: lim.{low} must not exceed lim.{high} ({values})")


def line_in_entry(lines: Sequence[str], entry: int, key: str) -> int:
    """Returns the line that sets `key` in that [[cluster.hosts]] (1 = the first); 0 if not
    found."""
    current = 0
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].replace(" ", "")
        if text.startswith("["):
            current = current + 1 if text == "[[cluster.hosts]]" else current
        elif current == entry and text.startswith(f"{key}="):
            return number
    return 0


def line_of(lines: Sequence[str], section: str, key: str) -> int:
    """Returns the line that sets `section.key` (key "" = the section's heading); 1 if not found."""
    current, heading = "", 1
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].replace(" ", "").replace('"', "").replace("'", "")
        if text.startswith("["):
            current = text.strip("[]")
            if current in (section, f"{section}.{key}"):
                heading = number
                if not key or current != section:
                    return number
            continue
        name = text.split("=")[0]
        full = f"{current}.{name}" if current else name
        wanted = f"{section}.{key}" if key else section
        if "=" in text and (full == wanted or full.startswith(wanted + ".")):
            return number
    return heading


def own_daemons() -> bool:
    """Returns whether this user's own daemons run at the default place: they take precedence."""
    directory = default_runtime_dir()
    try:  # below /tmp another user may have created the directory, with a hard link to our socket
        owners = {os.lstat(path).st_uid for path in (directory, f"{directory}/lim.sock")}
        return owners == {os.geteuid()}
    except OSError:
        return False


def default_runtime_dir() -> str:
    """Returns /run/lbd for root, else a directory of the user's own. `lbrun` looks in the same
    places."""
    if os.geteuid() == 0:
        return SYSTEM_DIRS[0]
    base = os.environ.get("XDG_RUNTIME_DIR")
    # Below /tmp anybody may have created it first; its users check that.
    return f"{base}/lbd" if base else f"/tmp/lbd-{os.geteuid()}"  # noqa: S108


def default_state_dir() -> str:
    if os.geteuid() == 0:
        return SYSTEM_DIRS[1]
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{base}/lbd"
