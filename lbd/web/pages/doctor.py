"""The findings of `lbctl doctor`, each with its fix."""

from dataclasses import asdict

from lbd.doctor.checks import FAULT, OK, UNSEEN, WARN, Check
from lbd.doctor.findings import check_lim, checks
from lbd.text.units import counted
from lbd.web import view
from lbd.web.asked import Asked
from lbd.web.view import Facts, Item, Page, Part, Table

KINDS = {OK: view.GOOD, UNSEEN: view.DIM, WARN: view.WARN, FAULT: view.BAD}
SAYS = {OK: "ok", UNSEEN: "skipped", WARN: "warning", FAULT: "fault"}
ORDER = (FAULT, WARN, UNSEEN, OK)


def make_doctor(asked: Asked) -> Page:
    """Shows all findings to the user that this process runs as. Others see what the daemons tell
    everybody about the cluster."""
    if asked.sees_host:
        found = list(checks(asked.daemons.config))
    else:
        found = list(check_lim(asked.daemons))
    return doctor_page(found, asked.daemons.config.host.name)


def doctor_page(found: list[Check], host: str) -> Page:
    faults = sum(check.state == FAULT for check in found)
    warnings = sum(check.state == WARN for check in found)
    ordered = sorted(found, key=lambda check: ORDER.index(check.state))
    rows = [
        (Item(check.name), Item(SAYS[check.state], KINDS[check.state]), Item(check.says),
         Item(check.fix))
        for check in ordered
    ]  # fmt: skip
    summary = f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}"
    kind = view.BAD if faults else view.WARN if warnings else view.GOOD
    parts: list[Part] = [
        Facts("summary", f"As seen from {host}", [("found", Item(summary, kind))]),
        Table("checks", "Checks", ("Check", "State", "Found", "Fix"), rows),
    ]
    data: dict[str, object] = {"host": host, "faults": faults, "warnings": warnings,
                  "checks": [{**asdict(check), "mend": check.fix} for check in found]}  # fmt: skip
    return Page("Doctor", parts, data, "/doctor")
