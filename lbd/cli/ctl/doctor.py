"""`lbctl doctor`: checks this host and its view of the others; names each fault and its fix."""

import argparse
from dataclasses import asdict

from lbd.cli.ctl.verb import Verb
from lbd.cli.damaged_config import load_despite_faults
from lbd.config.load import load
from lbd.console.output import (
    DIM,
    GREEN,
    LAST_COLUMNS,
    RED,
    YELLOW,
    Cell,
    Page,
    Row,
    own_page,
    print_json,
    put,
    width,
    wrapped,
)
from lbd.doctor.checks import (
    FAULT,
    OK,
    UNSEEN,
    WARN,
    Check,
)
from lbd.doctor.findings import checks
from lbd.errors import ConfigError
from lbd.text.one_line import printable
from lbd.text.units import counted

COLOURS = {OK: GREEN, UNSEEN: DIM, WARN: YELLOW, FAULT: RED}
SHOWN = {OK: "ok", UNSEEN: "-", WARN: "warn", FAULT: "FAULT"}
STATE_COLUMNS = 9  # width of FAULT and the space between columns


def doctor(options: argparse.Namespace, path: str | None) -> int:
    """Returns 1 if anything is a fault, 0 if there are only warnings."""
    try:
        config = load(path)
    except ConfigError as problem:
        return report(config_faults(path, problem), "", options.json)
    return report([*checks(config)], config.host.name, options.json)


def config_faults(path: str | None, problem: ConfigError) -> list[Check]:
    """Returns every fault of lbd.toml, as `lbctl config check` does. `problem`: the first."""
    try:
        faults = load_despite_faults(path)[1] or [str(problem)]
    except ConfigError:
        faults = [str(problem)]
    return [Check("configuration", FAULT, fault, "correct it") for fault in faults]


def report(found: list[Check], host: str, as_json: bool) -> int:
    faults = sum(check.state == FAULT for check in found)
    warnings = sum(check.state == WARN for check in found)
    if as_json:
        items = [{**asdict(check), "mend": check.fix} for check in found]
        print_json({"host": host, "faults": faults, "warnings": warnings, "checks": items})
        return 1 if faults else 0
    put(*report_lines(found, own_page()))
    put("", f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}")
    return 1 if faults else 0


def report_lines(found: list[Check], page: Page) -> list[str]:
    """Wraps sentences between words, beside the names of their checks."""
    names = max((width(check.name) for check in found), default=0)
    room = page.columns
    if room is not None:
        room = max(LAST_COLUMNS, room - names - STATE_COLUMNS)
    rows: list[Row] = []
    for check in found:
        lines = wrapped(printable(check.says), room, "  ")
        if check.fix:
            lines += wrapped(f"fix: {printable(check.fix)}", room, "     ")
        rows.append((Cell(SHOWN[check.state], COLOURS[check.state]), check.name, lines[0]))
        rows += [("", "", line) for line in lines[1:]]
    return page.table(("", "CHECK", "FOUND"), rows)


VERBS = {"doctor": Verb(doctor)}
