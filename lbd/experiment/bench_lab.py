"""The lab that an experiment's runs use: start it, configure it, wait until it is idle, read it."""

import time
from collections.abc import Callable
from pathlib import Path

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.experiment.design import Case, Design, change_threshold, index_of
from lbd.lab import lab, removal
from lbd.lab.hosts import Say
from lbd.lab.record import Record
from lbd.local.json_socket import Json, Refusal, ask

ASK_S = 5.0
POLL_S = 0.1
AGREED_S = 15.0  # for a change to reach every host
RESTED_S = 10.0  # for indices to fall; after that, an index with a long T is only decaying
RESTED_TASKS = 0.3
ACCOUNTED_S = 4.0  # for ended commands to be recorded


def lab_settings(design: Design) -> tuple[str, ...]:
    """Returns settings like the thesis's hosts: no limit on jobs, and busy hosts report too."""
    return (
        "lbm.slots=10000",
        "lim.report_ceiling=10000",
        "lim.probe_timeout_s=1",  # a host that has used up its quota answers up to 0.1 s later
        f"lim.change_threshold={change_threshold(design.cpus)}",
        "dispatch.host=",
        *design.settings,
    )


def up(root: Path, design: Design, say: Say) -> Record:
    """Raises LbdError."""
    settings = lab_settings(design)
    plan, remark = lab.make_plan(root, design.hosts, design.cpus, "namespaces", "", settings)
    if remark:
        say(remark)
    return lab.up(plan, say, lambda: None)


def down(root: Path) -> None:
    removal.down(root)


def prepare(record: Record, design: Design, case: Case) -> None:
    """Sets the run's algorithm and parameters on every host, and waits until every host is idle."""
    first = record.plan.hosts[0]
    question(record, first, "lim", {"op": "algorithm", "name": case.algorithm})
    parameters = design.parameters(case)
    for name, value in parameters.items():
        question(record, first, "lim", {"op": "param", "name": name, "value": value})
    wait(lambda: disagreeing(record, case.algorithm, parameters), AGREED_S)
    if index_of(case.index).measure.index == "load-average":
        return  # the load average remembers a minute
    deadline_s = time.monotonic() + RESTED_S
    limit = RESTED_TASKS / design.cpus
    while time.monotonic() < deadline_s and any(
        own_index(record, host) > limit for host in record.plan.hosts
    ):
        time.sleep(POLL_S)


def disagreeing(record: Record, algorithm: str, parameters: dict[str, float | str]) -> str:
    """Returns what a host has not learnt yet, "" if nothing."""
    for host in record.plan.hosts:
        status = question(record, host, "lim", {"op": "status"})
        cluster, params = status.get("cluster"), status.get("params")
        if not isinstance(cluster, dict) or not isinstance(params, dict):
            raise PeerError(f"the LIM of {host} does not say what is set")
        if cluster.get("algorithm") != algorithm:
            return f"{host} still has the algorithm {cluster.get('algorithm')}"
        for name, value in parameters.items():
            if params.get(name) != value:
                return f"{host} still has {name} = {params.get(name)}"
    return ""


def own_index(record: Record, host: str) -> float:
    rows = question(record, host, "lim", {"op": "status"}).get("hosts")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and row.get("name") == host:
            return float(row.get("index") or 0.0)
    return 0.0


def accounted(record: Record, host: str, since: float) -> tuple[int, int]:
    """Returns how many commands of this host have ended since, and how many were sent wrongly."""
    reported = question(record, host, "lbm", {"op": "stats", "of": host, "since": since}).get("all")
    if not isinstance(reported, list) or len(reported) < 5:
        raise PeerError(f"the LBM of {host} gives no figures")
    return int(reported[1]), int(reported[4])


def question(record: Record, host: str, daemon: str, request: Json) -> Json:
    """Raises LbdError that names the daemon without an answer."""
    try:
        return ask(record.plan.paths(host).socket(daemon), request, ASK_S)
    except (Unavailable, Refusal) as problem:
        raise LbdError(f"{daemon} of {host}: {problem}") from problem


def wait(missing: Callable[[], str], patience_s: float) -> None:
    """Raises LbdError that says what is still missing after that time."""
    deadline_s = time.monotonic() + patience_s
    while why := missing():
        if time.monotonic() > deadline_s:
            raise LbdError(f"the lab is not ready for its run: {why}")
        time.sleep(POLL_S)
