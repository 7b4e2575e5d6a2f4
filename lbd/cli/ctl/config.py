"""`lbctl config check, show, set`: what lbd.toml says, and where each value in force comes from."""

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

from lbd.cli.ctl.own_config import (
    after,
    checked,
    copied_from,
    need_writable,
    put_config,
    text_of,
    way_without,
    with_settings,
)
from lbd.cli.ctl.startable import warn, warn_of_rules
from lbd.cli.ctl.steer import FORWARD_TIMEOUT_S, algorithm, param, say_missing, where
from lbd.cli.ctl.verb import Verb, say
from lbd.cli.damaged_config import load_despite_faults
from lbd.cli.program import Parser
from lbd.config.cluster import QUEUE, is_shared, overlaid, read, shared_text
from lbd.config.fields import shown
from lbd.config.load import (
    Given,
    absent_file,
    find_file,
    load,
    read_given,
    settle,
    toml_value,
)
from lbd.config.reload import is_reloaded
from lbd.config.resources import fault_of_name
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.output import DIM, Cell, own_page, print_json, put
from lbd.console.reply import Json, table, text, texts
from lbd.doctor.daemon_replies import slots
from lbd.doctor.queue_settings import OF_THE_QUEUE, fault_with, queue_base, when_in_force
from lbd.errors import ConfigError, LbdError
from lbd.text.spelling import hint

BUILT_IN = "built-in"
FOR_ALL = "set for all hosts"  # followed by how it is set
ALGORITHM = "lim.algorithm"
SLOTS = "admission.slots"
HEADER = ("SETTING", "VALUE", "FROM")
ABOUT = {
    "check": "check a file and report each fault",
    "show": "show every setting in force on this host, and where it comes from",
    "set": "change one setting in this host's lbd.toml, or for the whole cluster",
}
EXAMPLES = (
    "lbctl config check                        this host's lbd.toml",
    "lbctl config check new.toml               before you install it",
    "lbctl config show --changed               only what differs from the defaults",
    "lbctl config show lim                     one section",
    "lbctl config set admission.slots 2        takes effect at once",
    "lbctl config set lim.local_threshold 0.5 --cluster",
)


@dataclass(frozen=True, slots=True)
class Setting:
    name: str  # "lim.port"
    value: object
    origin: str  # "/etc/lbd/lbd.toml:12", BUILT_IN, or who changed it for the cluster
    default: object

    @property
    def is_changed(self) -> bool:
        return self.origin != BUILT_IN

    def json(self) -> Json:
        names = ("value", "default")
        values = {name: plain(getattr(self, name)) for name in names}
        return {"name": self.name, "from": self.origin, **values}


def add_commands(parser: Parser) -> None:
    parser.elsewhere = {"get": 'use "lbctl config show"'}
    add_options = {"check": add_check, "show": add_show, "set": add_set}
    for word, made in parser.subcommands(ABOUT):
        add_options[word](made)


def add_check(parser: Parser) -> None:
    parser.set_defaults(run=check)
    parser.add_argument("file", metavar="FILE", nargs="?", help="default: this host's lbd.toml")


def add_show(parser: Parser) -> None:
    parser.set_defaults(run=show)
    parser.add_argument("name", metavar="NAME", nargs="?", help="a section or one setting")
    parser.add_argument(
        "--changed", action="store_true", help="only settings that differ from the defaults"
    )


def add_set(parser: Parser) -> None:
    parser.set_defaults(run=change)
    parser.add_argument("name", metavar="SECTION.KEY")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="a word, or a TOML value")
    parser.add_argument("--unset", action="store_true", help="remove it: the default applies "
                                                             "again, or with --cluster each host's "
                                                             "own value")  # fmt: skip
    parser.add_argument("--cluster", action="store_true",
                        help="for all hosts, including those that join later, and across restarts; "
                             "works for [dispatch], [tags], cluster.resources, lim.algorithm and "
                             "everything `lbctl param` lists")  # fmt: skip


def run_command(options: argparse.Namespace, path: str | None) -> int:
    return int(options.run(options, path))


# Check


def check(options: argparse.Namespace, path: str | None) -> int:
    named: str | None = options.file or path
    config, faults = load_despite_faults(named)
    faults = [*faults, *faults_of_resources(config)]
    if options.json:
        print_json({"file": config.path or None, "valid": not faults, "faults": faults})
    elif faults:
        put(*faults)
    elif config.path:
        put(f"{config.path} is valid")
        warn_of_rules(config)
        warn(config)
    else:
        put(f"{absent_file(named)} does not exist: all settings have their defaults")
    return 1 if faults else 0


def resources_of_all(config: Config) -> tuple[str, ...]:
    """Returns the names of resources in this cluster; () if any name will do."""
    return overlaid(config, Daemons(config).saved())[0].cluster.resources


def faults_of_resources(config: Config) -> list[str]:
    """Returns complaints about resources that this host has but its cluster does not know."""
    names = resources_of_all(config) if config.resources.amounts else ()
    faults = (fault_of_name(name, names) for name, _ in config.resources.amounts)
    return [f"{config.path}: resources: {fault}" for fault in faults if fault]


# Show


def show(options: argparse.Namespace, path: str | None) -> int:
    config, faults = load_despite_faults(path)
    if faults:
        say(f"{faults[0]}; settings with faults are left out (lbctl config check)")
    found = [one for one in in_force(config) if is_meant(one.name, options.name)]
    if options.name and not found:
        known = [one.name for one in settings(config, config)]
        sections = list(dict.fromkeys(name.partition(".")[0] for name in known))
        raise ConfigError(
            f"no setting named {options.name!r}; {hint(options.name, known + sections)}"
        )
    if options.changed:
        found = [one for one in found if one.is_changed]
    if options.json:
        print_json([one.json() for one in found])
        return 0
    rows = [
        (one.name, shown(one.value), Cell(one.origin, "" if one.is_changed else DIM))
        for one in found
    ]
    put(*own_page().table(HEADER, rows, (), ("VALUE", "FROM")))
    return 0


def is_meant(name: str, wanted: str | None) -> bool:
    return wanted is None or wanted in (name, name.partition(".")[0])


def in_force(config: Config) -> Iterator[Setting]:
    """Yields the file's settings, overlaid with those of the whole cluster if the LIM answers."""
    try:
        status = Daemons(config).lim({"op": "status"})
    except LbdError:
        status = {}
    changed = table(status, "params")
    if algorithm_now := table(status, "cluster").get("algorithm"):
        changed = {**changed, ALGORITHM: algorithm_now}
    daemons = Daemons(config)
    saved, trial, signer = daemons.saved(), daemons.on_trial(), daemons.settings_signer()
    signed = f", signed by {signer}" if signer else ""
    queue = {one.name: one.value for one in settings(overlaid(config, saved)[0], Config())}
    for one in settings(config, settle(Config(), Given("", ""))):
        if one.name in saved and is_shared(one.name):
            how = " (lbctl queue)" if one.name in QUEUE else " (lbctl config set --cluster)"
            yield Setting(one.name, queue[one.name], FOR_ALL + how + signed, one.default)
            continue
        value = changed.get(one.name, one.value)
        if type(one.default) is bool:
            value = bool(value)
        if value == one.value:
            yield one
        else:
            how = " (lbctl algorithm)" if one.name == ALGORITHM else " (lbctl param)"
            how = f" for a trial{how}" if one.name in trial else how + signed
            yield Setting(one.name, value, FOR_ALL + how, one.default)


def settings(config: Config, defaults: Config) -> Iterator[Setting]:
    given = read_given(Path(config.path)) if config.path else Given("", "")
    for section in fields(Config):
        if not is_dataclass(section.type):
            continue
        values, built_in = getattr(config, section.name), getattr(defaults, section.name)
        for item in fields(values):
            origin = given.place(section.name, item.name) or BUILT_IN
            value, default = getattr(values, item.name), getattr(built_in, item.name)
            yield Setting(f"{section.name}.{item.name}", value, origin, default)


def plain(value: object) -> object:
    """Returns the value in a form that JSON has."""
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    return value


# Set


def change(options: argparse.Namespace, path: str | None) -> int:
    name: str = options.name
    if options.unset == (options.value is not None):
        raise ConfigError(
            "give a value, or --unset" if not options.unset else "--unset takes no value"
        )
    if options.cluster:
        return change_for_all(options, path)
    section, dot, key = name.partition(".")
    if not (dot and key):
        raise ConfigError(f"{name}: must be section.key")
    file = absent_file(path) or find_file(path)
    assert file is not None  # otherwise it is absent
    need_writable(file.parent, way_without(name, file))
    value = None if options.unset else toml_value(options.value)
    text = with_settings(text_of(file), {(section, key): value}, str(file))
    try:
        config = checked(text, file)
        is_resource = section == "resources" and value is not None
        if is_resource and (fault := fault_of_name(key, resources_of_all(config))):
            raise ConfigError(fault)
        if name.startswith(OF_THE_QUEUE) and value is not None:
            need_possible(config, Daemons(config).saved(), name)
    except ConfigError as problem:  # without the line number, as the file has no such line
        fault = re.sub(rf"^{re.escape(str(file))}(:\d+)?: ", "", str(problem))
        raise ConfigError(f"{file} is not changed: {fault}") from None
    put_config(file, text)
    warn_of_rules(config, name)
    warn(config)
    daemons = Daemons(load(path))
    overruled = overruled_by(name, value, daemons)
    is_copy = copied_from(daemons.config) is not None
    has_taken_effect = not (overruled or is_copy) and is_reloaded(name) and reload(daemons)
    if has_taken_effect and (overruled := overruled_here(name, daemons)):
        has_taken_effect = False
    if options.json:
        print_json({"name": name, "value": value, "file": str(file), "in_force": has_taken_effect})
        return 0
    what = f"{name} = {shown(value)}" if value is not None else f"{name}: back to the default"
    runs = is_copy or any(os.path.exists(daemons.socket(daemon)) for daemon in ("lim", "lbm"))
    later = f"takes effect {after(name, daemons)}" if runs else "takes effect when lbd starts here"
    put(f"{what} ({file}): {overruled or ('in force' if has_taken_effect else later)}")
    return 0


def overruled_by(name: str, value: object, daemons: Daemons) -> str:
    """Returns the value set for all hosts instead and how to remove it; "" for none."""
    saved, trial = daemons.saved(), daemons.on_trial()
    if (given := trial.get(name, saved.get(name))) is None:
        return ""
    found = read(given)  # as TOML has it, or a word
    if value is not None and value in (found, given):
        return ""
    if name in trial:
        back = "algorithm" if name == ALGORITHM else f"param {name}"
        return f"not in force: {given} is {FOR_ALL} for a trial; `lbctl {back} --reset` ends that"
    back = "`lbctl queue` changes that" if name in QUEUE else (
        f"`lbctl config set {name} --unset --cluster` takes that back")  # fmt: skip
    held = given if found is None else found if isinstance(found, str) else shown(found)
    return f"not in force: {held} is {FOR_ALL}; {back}"


def overruled_here(name: str, daemons: Daemons) -> str:
    """Returns what the doctor says of a setting that another one of this host overrules."""
    if name != SLOTS:
        return ""
    try:
        found = [*slots(daemons.lbm({"op": "status"}), daemons.config)]
    except LbdError:
        return ""
    return "; ".join(f"{one.says}; {one.fix}" for one in found)


def need_possible(base: Config, saved: Mapping[str, str], name: str, what: str = "") -> None:
    """Raises ConfigError if the dispatcher could not run with the resulting settings. Removing a
    setting (--unset) is never refused, because that is the way back."""
    if fault := fault_with(base, saved, name):
        raise ConfigError(f"{what}{fault}")


def reload(daemons: Daemons) -> bool:
    """Returns whether a running LBM has read the file again."""
    if not os.path.exists(daemons.socket("lbm")):
        return False
    try:
        daemons.lbm({"op": "reload"})
    except LbdError as problem:
        say(f"written to the file, but `lbctl reload` failed: {problem}")
        return False
    return True


def change_for_all(options: argparse.Namespace, path: str | None) -> int:
    """Changes a setting of all hosts, like `lbctl algorithm` and `lbctl param` with --save."""
    options.save, options.reset = not options.unset, options.unset
    daemons = Daemons(load(path))
    if options.name.startswith(OF_THE_QUEUE) or is_shared(options.name):
        return change_shared(daemons, options)
    if options.name == ALGORITHM:
        options.name = options.value
        return algorithm(daemons, options)
    return param(daemons, options)


def change_shared(daemons: Daemons, options: argparse.Namespace) -> int:
    name: str = options.name
    if name in QUEUE:
        raise ConfigError(f"{name}: use `lbctl queue` to change it")
    value = None if options.unset else toml_value(options.value)
    before = daemons.saved()
    after = {other: text for other, text in before.items() if other != name}
    if value is not None:
        after[name] = shared_text(name, value)
        if name.startswith(OF_THE_QUEUE):
            need_possible(queue_base(daemons), after, name, "nothing is changed: ")
    reply = daemons.lim({"op": "share", "values": {name: value}}, FORWARD_TIMEOUT_S)
    if options.json:
        print_json({"name": name, "value": value, "in_force": not texts(reply, "missing"), **reply})
        return 0
    what = f"{name} = {shown(value)}" if value is not None else name
    put(f"{what}: {where(reply)}; {when_in_force(daemons, name, before, after)}")
    say_missing(reply)
    return 0


def sign_again(daemons: Daemons, replaced: str) -> None:
    """Signs the settings for all hosts again, unchanged. A host that joins rejects settings that a
    revoked host, or the host that it replaces, has signed."""
    try:
        found = daemons.lim({"op": "settings"})
    except LbdError:
        return
    signer, is_revoked = text(found, "signed_by"), bool(text(found, "doubt"))
    if not signer or (signer != replaced and not is_revoked):
        return
    own = daemons.config.host.name
    why = f"by {signer}, to which this token gives a new certificate"
    if is_revoked:
        is_old = signer == own or "old certificate" in text(found, "doubt")
        why = f"with an old certificate of {signer}" if is_old else f"by {signer}, which is revoked"
    try:
        daemons.lim({"op": "settings", "sign": True}, FORWARD_TIMEOUT_S)
        done = f"now signed by {own}; see `lbctl config show --changed`"
    except LbdError as problem:
        done = f"hosts that join will not accept them: {problem}"
    say(f"the settings for all hosts were signed {why}: {done}")


VERBS = {"config": Verb(run_command, add_commands, EXAMPLES, own_options=True)}
