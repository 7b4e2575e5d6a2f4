"""Finds what cannot work as meant in the owner's rules: names that this host does not have,
programs that are never reached by the given path, and times that are too short.
"""

import grp
import os
from collections.abc import Iterator

from lbd.config.access import AdmissionConfig
from lbd.doctor.checks import WARN, Check
from lbd.keeper.gate import find_account
from lbd.text.one_line import printable

LISTS = ("users", "deny_users", "groups", "deny_groups", "programs", "deny_programs")
OWNER_IDLE_S_LEAST = 20.0


def rules_checks(config: AdmissionConfig) -> Iterator[Check]:
    for key in LISTS:
        for says, fix in idle_entries(key, getattr(config, key)):
            yield Check(f"admission.{key}", WARN, says, fix)
    if config.everybody_when and not (config.users or config.groups):
        says = "everybody may at all times, since neither admission.users nor groups says who"
        fix = "set one of these, or `lbctl config set admission.everybody_when --unset`"
        yield Check("admission.everybody_when", WARN, says, fix)
    if 0 < config.owner_idle_s < OWNER_IDLE_S_LEAST:
        says = (
            f"{config.owner_idle_s:g} s is too short: Linux notes the use of a terminal only every "
            "8 s, so an owner who types is taken to be away"
        )
        fix = f"`lbctl config set admission.owner_idle_s {OWNER_IDLE_S_LEAST:g}`, or more"
        yield Check("admission.owner_idle_s", WARN, says, fix)


def idle_entries(key: str, entries: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yields the fault and the fix of each entry that matches nothing. Patterns are not checked."""
    verb = "shuts out" if key.startswith("deny_") else "admits"
    for entry in entries:
        if any(mark in entry for mark in "*?["):
            continue
        kind = key.removeprefix("deny_")
        if kind == "programs":
            if (real := other_path(entry)) is None:
                continue
            whole = f"{entry} is {real}" if real else f"{entry} does not exist"
            fix = f"name {real} instead" if real else "correct the path, or install it"
            yield f"{printable(whole)}: this entry {verb} no program", printable(fix)
        elif not (has_group(entry) if kind == "groups" else find_account(entry)):
            what = f"this host has no {kind[:-1]} {printable(entry)}"
            yield f"{what}: this entry {verb} nobody", "correct the name, or create it"


def other_path(program: str) -> str | None:
    """Returns the path with links resolved; "" if there is no such file, None if it is correct as
    it is."""
    if "/" not in program:  # matches every file of that name
        return None
    try:
        os.stat(program)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return ""
    except OSError:  # we may not look
        return None
    real = os.path.realpath(program)
    return None if real == program else real


def has_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except (KeyError, ValueError):
        return False
    return True
