"""The algorithm and its parameters, the same on every host and changeable at run time.

A change is made on one host, gets a version (counter, author) above any known there, and is sent to
all hosts; where two versions meet, the higher wins. The centre's vectors carry the version, so a
host that missed a change notices. What was never changed follows each host's own configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TypeVar

from lbd.config.cluster import is_shared
from lbd.config.fields import fault_of
from lbd.config.schema import ALGORITHMS, Config, LimConfig, LoadConfig, LogConfig
from lbd.errors import ConfigError
from lbd.lim.core.adaptive import TUNED
from lbd.lim.core.messages import (
    COUNTER_MAX,
    DRAIN_NOTES_MAX,
    DRAINS_MAX,
    PAST_DRAINS_MAX,
    SAVED_MAX,
    DrainNote,
    Member,
    PastDrain,
    Seal,
    Settings,
)
from lbd.model import HostId
from lbd.text.spelling import hint

Kept = TypeVar("Kept")

TUNABLE = {f"lim.{name}" for name in TUNED}
LOAD_PARAMS = ("index", "smoothing_s", "io_weight", "memory_weight")
NOBODY: Mapping[HostId, bool] = {}
NOTHING: Mapping[str, str] = {}
NO_NOTES: Mapping[HostId, DrainNote | None] = {}
ALGORITHM = "lim.algorithm"  # saved and reset like other settings
TRUTHS = {"true": "1", "on": "1", "false": "0", "off": "0"}
# settings in [lim] that are not parameters
FIXED = ("port", "algorithm", "max_hosts", "max_message_bytes", "history_bytes")
SHARED = tuple(item.name for item in fields(LimConfig) if item.name not in FIXED)
PARAMS = (
    *(f"lim.{name}" for name in SHARED), *(f"load.{name}" for name in LOAD_PARAMS), "log.level",
)  # fmt: skip
SECTIONS = {"lim": LimConfig, "load": LoadConfig, "log": LogConfig}
CONFIGURED = {
    f"{section.name}.{item.name}"
    for section in fields(Config)
    if is_dataclass(own := getattr(Config(), section.name))
    for item in fields(own)
}


@dataclass(frozen=True, slots=True)
class InForce:
    """The configuration overlaid with the settings."""

    lim: LimConfig
    load: LoadConfig
    log: LogConfig = field(default_factory=LogConfig)


def full_name(name: str) -> str:
    """`min_gain` or `lim.min_gain` -> `lim.min_gain`. Raises ConfigError for an unknown one."""
    for candidate in (name, *(f"{section}.{name}" for section in SECTIONS)):
        if candidate in PARAMS:
            return candidate
    if name == ALGORITHM:
        raise ConfigError("lim.algorithm is not a parameter; use `lbctl algorithm NAME`")
    if name in CONFIGURED or name.startswith("resources."):
        how = f"`lbctl config set {name} VALUE"
        if is_shared(name):
            raise ConfigError(f"{name} is not a LIM parameter; use {how} --cluster`")
        raise ConfigError(f"{name} is set per host: use {how}` there, without --cluster")
    raise ConfigError(f'no parameter "{name}"; {hint(name.rpartition(".")[2], shorts())}')


def shorts() -> list[str]:
    return [name.partition(".")[2] for name in PARAMS]


def check_algorithm(name: str) -> str:
    """Returns the name in its own spelling. Raises ConfigError if it is not one of ours."""
    if name.upper() in ALGORITHMS:
        return name.upper()
    raise ConfigError(f'no algorithm "{name}"; {hint(name, ALGORITHMS)}')


Value = float | str


def value_of(base: InForce, name: str) -> Value:
    section, _, key = full_name(name).partition(".")
    value: Value = getattr(getattr(base, section), key)
    return float(value) if isinstance(value, bool) else value


def parsed(name: str, value: object) -> Value:
    """Returns the value for a parameter. Raises ConfigError if it is invalid."""
    section, _, key = full_name(name).partition(".")
    item = next(item for item in fields(SECTIONS[section]) if item.name == key)
    if item.type is str:
        if fault := fault_of(item, value):
            raise ConfigError(f"{section}.{key}: {fault}")
        return str(value)
    try:
        number = float(TRUTHS.get(str(value).lower(), str(value)))
        whole = item.type in (int, bool) and number == int(number)
        typed: object = int(number) if whole else number
        if item.type is bool and typed in (0, 1):
            typed = bool(typed)
    except (ValueError, OverflowError):
        typed = value
    if fault := fault_of(item, typed):
        raise ConfigError(f"{section}.{key}: {fault}")
    return float(str(int(typed) if isinstance(typed, bool) else typed))


def in_force(base: InForce, settings: Settings) -> InForce:
    """Raises ConfigError if a setting is unknown here or out of range (perhaps from a newer
    host)."""
    wanted = as_set(base, settings)
    if not wanted.lim.adaptive:
        return wanted
    # Any host may claim to be the centre and tune: accept only what a centre tunes.
    tuned = {name: value for name, value in settings.tuned.items() if name in TUNABLE}
    return overlaid(wanted, tuned)


def as_set(base: InForce, settings: Settings) -> InForce:
    """Returns what people have set, before the centre tunes it. Raises ConfigError."""
    if settings.algorithm:
        algorithm = check_algorithm(settings.algorithm)
        base = replace(base, lim=replace(base.lim, algorithm=algorithm))
    return overlaid(base, {**settings.params, **settings.words})


def overlaid(base: InForce, params: Mapping[str, Value]) -> InForce:
    """Raises ConfigError."""
    for name, value in params.items():
        section, _, key = full_name(name).partition(".")
        before = getattr(base, section)
        kind = type(getattr(before, key))
        own = replace(before, **{key: kind(parsed(name, value))})
        base = replace(base, **{section: own})
    return base


def changed(
    settings: Settings, author: str, algorithm: str | None, params: Mapping[str, Value],
    drains: Mapping[HostId, bool] = NOBODY, notes: Mapping[HostId, DrainNote | None] = NO_NOTES,
    ended: PastDrain | None = None, *, save: bool = False, reset: frozenset[str] = frozenset(),
    shared: Mapping[str, str] = NOTHING, seal: Seal | None = None,
) -> Settings:  # fmt: skip
    """Returns the next version of the settings. `notes`: None for a host that is no longer drained.
    `seal`: the seal of the resulting policy. Raises ConfigError if there can be no next version."""
    drains = {**settings.drains, **drains}
    if len(drains) > DRAINS_MAX:
        raise ConfigError(f"{DRAINS_MAX} hosts that are down are already drained")
    words = {name: value for name, value in params.items() if isinstance(value, str)}
    numbers = {name: value for name, value in params.items() if not isinstance(value, str)}
    past = (*settings.past_drains, ended) if ended else settings.past_drains
    kept = {**settings.saved, **(saved_texts(algorithm, params) if save else {}), **shared}
    saved = without(kept, reset)
    if len(saved) > SAVED_MAX:
        raise ConfigError(f"{SAVED_MAX} settings are already saved: remove one with --reset")
    # A signed policy goes by its own number, which no other host can have used up.
    is_last = seal is not None and settings.counter >= COUNTER_MAX
    return replace(
        settings,
        counter=settings.counter if is_last else after(settings),
        author=settings.author if is_last else author,
        seal=seal or settings.seal,
        algorithm=algorithm or ("" if ALGORITHM in reset else settings.algorithm),
        params=without({**settings.params, **numbers}, reset),
        words=without({**settings.words, **words}, reset),
        drains=drains,
        drain_notes=noted(settings.drain_notes, notes),
        past_drains=past[-PAST_DRAINS_MAX:],
        saved=saved,
    )


def without(values: Mapping[str, Kept], names: frozenset[str]) -> dict[str, Kept]:
    return {name: value for name, value in values.items() if name not in names}


def saved_texts(algorithm: str | None, params: Mapping[str, Value]) -> dict[str, str]:
    """Returns the values in the form of `Settings.saved`."""
    texts = {
        name: value if isinstance(value, str) else repr(value) for name, value in params.items()
    }
    return {**texts, **({ALGORITHM: algorithm} if algorithm else {})}


def on_trial(settings: Settings) -> dict[str, str]:
    """Returns what is set but not saved: it lasts until all LIMs have stopped."""
    texts = saved_texts(settings.algorithm, {**settings.params, **settings.words})
    return {name: text for name, text in texts.items() if settings.saved.get(name) != text}


def resumed(base: InForce, kept: Settings) -> tuple[Settings, list[str]]:
    """Returns the settings to start with, made from the saved ones, and a sentence on each value
    that was left out. Values that are invalid here, perhaps from another release, stay saved."""
    found, faults = kept, []
    for name, value in sorted(kept.saved.items())[:SAVED_MAX]:
        if is_shared(name):
            continue  # read by the daemon it is for
        try:
            found = laid_over(base, found, name, value)
        except ConfigError as problem:
            faults.append(f"the saved {name} = {value} is ignored: {problem}")
    return found, faults


def laid_over(base: InForce, settings: Settings, name: str, value: str) -> Settings:
    """Raises ConfigError."""
    if name == ALGORITHM:
        return replace(settings, algorithm=check_algorithm(value))
    given = parsed(name, value)
    if isinstance(given, str):
        found = replace(settings, words={**settings.words, full_name(name): given})
    else:
        found = replace(settings, params={**settings.params, full_name(name): given})
    in_force(base, found)
    return found


def noted(
    before: Mapping[HostId, DrainNote], notes: Mapping[HostId, DrainNote | None]
) -> dict[HostId, DrainNote]:
    """Returns the newest notes."""
    kept = {host: note for host, note in {**before, **notes}.items() if note is not None}
    newest = sorted(kept, key=lambda host: kept[host].since)[-DRAIN_NOTES_MAX:]
    return {host: kept[host] for host in newest}


def after(settings: Settings) -> int:
    """Returns the next counter. Raises ConfigError at the highest one, as other hosts would reject
    more."""
    if settings.counter >= COUNTER_MAX:
        raise ConfigError(
            f"the version number of {settings.author}'s settings is at its maximum; they can be "
            "changed again once all LIMs have been restarted"
        )
    return settings.counter + 1


def wanted_drain(known: Settings, settings: Settings, me: Member) -> bool | None:
    """Whether newer settings want this host drained; None: unchanged.

    A host that knows no settings of a running host takes over the drain of the machine it has
    replaced, and the end of a drain that is in its backup.
    """
    if me.name in settings.drains or known.author:
        return settings.drains.get(me.name)
    before, note = known.drain_notes.get(me.name), settings.drain_notes.get(me.name)
    if note is None:
        has_ended = before is not None and len(settings.drain_notes) < DRAIN_NOTES_MAX
        return False if has_ended else None
    return True if note != before and note.since * 1000 < me.incarnation else None


def obeyed(settings: Settings, author: HostId) -> Settings:
    """Returns the next version, by a host that has carried out its own drain; the same one if its
    drain is not among those to be carried out."""
    if author not in settings.drains:
        return settings
    drains = {host: drained for host, drained in settings.drains.items() if host != author}
    return replace(settings, counter=after(settings), author=author, drains=drains)


def retuned(settings: Settings, author: str, tuned: dict[str, float]) -> Settings:
    """Returns the next version of the settings, made by the centre."""
    return replace(settings, counter=after(settings), author=author, tuned=tuned)
