"""Whether this host's daemons could start with its lbd.toml, and why one did not; whether its rules
can work as meant."""

from collections.abc import Collection, Iterator

from lbd.cli.ctl.own_address import certified
from lbd.cli.ctl.verb import say
from lbd.config.schema import Config
from lbd.doctor.checks import daemons_account, may
from lbd.doctor.idle_rules import rules_checks
from lbd.doctor.this_host import address
from lbd.doctor.unit_paths import STORE, WRITERS, barred
from lbd.process.units import said_by
from lbd.text.one_line import one_line
from lbd.trust.files import host_files

LINES = 20  # of the journal


def obstacles(config: Config, daemons: Collection[str] = ("dispatcher",)) -> Iterator[str]:
    """Yields what would keep these daemons from starting, and the fix, by the doctor's own
    checks."""
    for found in address(config):
        yield f"{found.says}; {found.fix}"
    written = [name for name in WRITERS if name != STORE or "dispatcher" in daemons]
    for says, fix in barred(config, written):
        yield f"{says}; {fix}"
    own, identity = config.host.name, certified(host_files(config))
    if identity is not None and identity.host != own:
        yield (
            f"host.name is {own}, but this host has joined as {identity.host}; "
            f"`lbctl config set host.name {identity.host}`, and `lbctl leave` before it gets "
            "another name"
        )
    account = daemons_account(config)
    if config.path and account is not None and not may(account, "-r", config.path):
        yield (
            f"user {account.name}, as whom the daemons run, may not read {config.path}; "
            f"chmod a+r {config.path}, and each directory above it a+x"
        )


def warn(config: Config) -> None:
    for obstacle in obstacles(config):
        say(f"warning: the daemons could not start with this: {obstacle}")


def warn_of_rules(config: Config, only: str = "") -> None:
    """Says what cannot work as meant in the owner's rules; `only`: in this setting."""
    for found in rules_checks(config.admission):
        if only in ("", found.name):
            say(f"warning: {found.name}: {found.says}; {found.fix}")


def failure(name: str, unit: str) -> str:
    """Returns why systemd has given up a daemon's unit; "" if it has not."""
    if not unit or said_by("systemctl", "show", "-p", "ActiveState", "--value", unit) != "failed":
        return ""
    log = said_by("journalctl", "-u", unit, "-n", str(LINES), "-o", "cat", "--no-pager")
    own = f"lbd {name}: "
    lines = [line.removeprefix(own) for line in log.splitlines() if line.startswith(own)]
    return ": ".join((f"{name} did not start again", *map(one_line, lines[-1:])))
