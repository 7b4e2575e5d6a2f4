"""Asks this host's LIM for the hosts where workers may start."""

import os
from collections.abc import Collection

from lbd.client.complaints import Trouble
from lbd.client.daemons import ask
from lbd.client.lbm_socket import find_runtime_dirs
from lbd.errors import LbdError
from lbd.local.json_socket import Json
from lbd.model import NO_NEEDS, Facts, Needs
from lbd.policy.needs import jobs_at_once, unmet
from lbd.python.core.worker_hosts import ANYWHERE, WorkerHost

ANSWER_S = 5.0


def find_hosts(
    only: str | None, excluded: Collection[str], needs: Needs = NO_NEEDS
) -> list[WorkerHost]:
    """Returns the hosts that take jobs. Without daemons that is this host alone, as for `lbrun`."""
    reply = ask_status()
    if reply is None:
        return [WorkerHost(ANYWHERE, cores=os.cpu_count() or 1, slots=os.cpu_count() or 1)]
    rows = reply.get("hosts")
    found = (
        [host_of(row, needs) for row in rows if isinstance(row, dict)] if type(rows) is list else []
    )
    hosts = [host for host in found if host is not None and host.name not in excluded]
    return [host for host in hosts if only is None or host.name == only]


def ask_status() -> Json | None:
    try:
        directories = find_runtime_dirs(None)
    except Trouble as problem:
        raise LbdError(str(problem)) from None
    try:
        return ask(directories, "lim", {"op": "status"}, ANSWER_S)
    except LbdError:
        return None


def host_of(row: Json, needs: Needs = NO_NEEDS) -> WorkerHost | None:
    """Returns None for a host that takes no jobs, or that can never meet a worker's needs."""
    name, slots = row.get("name"), row.get("slots")
    if row.get("state") != "up" or not isinstance(name, str) or not isinstance(slots, dict):
        return None
    total = slots.get("total")
    if not isinstance(total, int) or total < 1:
        return None
    facts = facts_of(row)
    if (lack := unmet(needs, facts)) is not None and not lack.later:
        return None
    if (most := jobs_at_once(needs, facts)) is not None:
        total = min(total, most)
    load, cores, speed = (number(row.get(key)) for key in ("index", "cores", "speed"))
    return WorkerHost(name, load or 0.0, cores or 1.0, speed or 1.0, total)


def facts_of(row: Json) -> Facts:
    features, resources = row.get("features"), row.get("resources")
    amounts = [
        (name, int(number(one.get("total"))), int(number(one.get("used"))))
        for name, one in (resources.items() if isinstance(resources, dict) else ())
        if isinstance(one, dict)
    ]
    named = map(str, features) if isinstance(features, list) else ()
    return Facts(tuple(named), tuple(amounts))


def need_words(needs: Needs) -> list[str]:
    """Returns the needs as options of `lbrun`."""
    words = [f"--need={name}={amount}" for name, amount in needs.resources]
    words += [f"--feature={feature}" for feature in needs.features]
    return [*words, *(f"--not-feature={feature}" for feature in needs.not_features)]


def number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
