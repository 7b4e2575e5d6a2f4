"""Fail-over: from the kill of the leading dispatcher to the start of a job, beside its lease.

Two dispatchers share one PostgreSQL, whose commits wait for the disk. The job is submitted right
after the kill, so it waits as `lbrun -q` does and starts when the new leader says so.
"""

import os
import signal
import subprocess
import time

from lbd.errors import LbdError
from lbd.local.json_socket import ask
from tests.bench.measure import CannotMeasureError, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage
from tests.postgres import Postgres, programs

HOSTS = ("h1", "h2")
TERM_S = 2.0
TIMES, QUICK_TIMES = 10, 2
SEEN_S = 30.0
ASKED = Bound(2.0)


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    if programs() is None:
        raise CannotMeasureError("no PostgreSQL: apt-get install postgresql")
    server = Postgres(sync=True)
    try:
        settings = (
            "dispatch.host=h1", 'dispatch.standby=["h2"]', f"dispatch.leader_lease_s={TERM_S}",
            f'dispatch.store="{server.database()}"', "dispatch.load_ceiling=10000",
        )  # fmt: skip
        with stage.new_lab("failover", len(HOSTS), *settings) as lab:
            mark = stage.others.mark()
            found = [fail_over_s(stage, lab) for _ in range(QUICK_TIMES if stage.quick else TIMES)]
            others = stage.others.share_since(mark)
    finally:
        server.close()
    return [
        Row(
            "leader killed until the next start", "s", summarise(found), "its lease",
            summarise([TERM_S]), ASKED, others, f"slowest {max(found):.2f} s",
        )
    ]  # fmt: skip


def fail_over_s(stage: Stage, lab: Lab) -> float:
    leader = leading(lab, ())
    (other,) = (host for host in HOSTS if host != leader)
    os.kill(lab.pids(leader)["dispatcher"], signal.SIGKILL)
    killed = time.time()
    command = [str(stage.installation.lbrun), "-q", "date", "+%s.%N"]
    started = subprocess.run(
        command, env=lab.environment(other), check=True, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    lab.start(leader, "dispatcher")
    leading(lab, (leader,))
    return float(started.stdout) - killed


def leading(lab: Lab, standing_by: tuple[str, ...]) -> str:
    """The leading host, once the hosts in `standing_by` stand by."""
    until_s = time.monotonic() + SEEN_S
    while time.monotonic() < until_s:
        leads = {}
        for host in HOSTS:
            try:
                leads[host] = ask(lab.socket(host, "dispatcher"), {"op": "status"}, 1.0)["leads"]
            except LbdError:
                leads[host] = None
        leaders = [host for host, value in leads.items() if value]
        if len(leaders) == 1 and all(leads[host] is False for host in standing_by):
            return leaders[0]
        time.sleep(0.05)
    raise CannotMeasureError("no dispatcher leads")
