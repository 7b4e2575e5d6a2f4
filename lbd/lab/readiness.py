"""What the hosts of a lab must know of each other before it is up, and how long that may take."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from lbd.errors import LbdError, Unavailable
from lbd.lab import hosts
from lbd.lab.plan import DAEMONS
from lbd.lab.record import Record
from lbd.local.json_socket import Json, Refusal, ask

READY_S = 120.0  # for daemons that are alive, on a machine that may be busy
TELL_S = 15.0  # before the first line on what is missing, and between lines
POLL_S = 0.1

Progress = Callable[[], None]


@dataclass(slots=True)
class Patience:
    """Limits how long a lab whose daemons are alive may take to come up, and reports meanwhile."""

    began_s: float
    told_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.told_s = self.began_s

    def line(self, missing: str, now_s: float) -> str:
        """Returns the line to print now, mostly "". Raises LbdError once it takes too long."""
        waited_s = now_s - self.began_s
        if waited_s >= READY_S:
            raise LbdError(f"the lab did not come up within {READY_S:g} s: {missing}")
        if now_s - self.told_s < TELL_S:
            return ""
        self.told_s = now_s
        return (
            f"not up after {waited_s:.0f} s: {missing}; "
            f"its daemons are alive, so waiting up to {READY_S:g} s"
        )


def wait_for_all(record: Record, say: hosts.Say, progress: Progress) -> None:
    """Waits until every host sees every other up and taking jobs. Raises LbdError quoting logs."""
    names = record.plan.hosts
    patience = Patience(time.monotonic())
    waiting = list(names)
    while waiting:
        missing = whats_missing(record, waiting[0], names)
        if not missing and record.plan.has_queue:
            missing = no_queue(record, waiting[0])
        if not missing:
            waiting.pop(0)
            progress()
            continue
        for host in names:
            for daemon in record.plan.daemons(host):
                if hosts.daemon_state(record, host, daemon) == "dead":
                    tail = hosts.log_tail(record, host, daemon)
                    raise LbdError(f"{host} {daemon} ended while the lab came up{tail}")
        try:
            line = patience.line(f"{waiting[0]}: {missing}", time.monotonic())
        except LbdError as problem:
            tails = "".join(hosts.log_tail(record, waiting[0], daemon) for daemon in DAEMONS[:2])
            raise LbdError(f"{problem}{tails}") from None
        if line:
            say(line)
        time.sleep(POLL_S)


def whats_missing(record: Record, host: str, wanted: Sequence[str], lbm: bool = True) -> str:
    """Returns what this host does not yet know of the hosts `wanted`, "" if nothing is missing."""
    path = record.plan.paths(host).socket("lim")
    try:
        seen = seen_hosts(ask(path, {"op": "status"}, hosts.ASK_TIMEOUT_S))
    except (Unavailable, Refusal) as problem:
        return str(problem)
    for name in wanted:
        entry = seen.get(name)
        if entry is None:
            return f"does not know {name} yet"
        if entry.get("state") != "up":
            return f"sees {name} {entry.get('state')} {entry.get('why_down') or ''}".rstrip()
        slots = entry.get("slots")
        if lbm and not (isinstance(slots, dict) and slots.get("total")):
            return f"has not heard of the LBM of {name} yet"
    return ""


def no_queue(record: Record, host: str) -> str:
    """Returns what keeps this host from its dispatcher, "" if nothing."""
    path = record.plan.paths(host).socket("lim")
    try:
        cluster = ask(path, {"op": "status"}, hosts.ASK_TIMEOUT_S).get("cluster")
    except (Unavailable, Refusal) as problem:
        return str(problem)
    there = isinstance(cluster, dict) and cluster.get("dispatcher")
    return "" if there else "has not reached the dispatcher yet"


def seen_hosts(status: Json) -> dict[str, Json]:
    """Returns `hosts` of a LIM's status by name."""
    entries = status.get("hosts")
    rows = cast("list[object]", entries) if isinstance(entries, list) else []
    return {str(row.get("name")): row for row in rows if isinstance(row, dict)}
