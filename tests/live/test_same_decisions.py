"""The same scenario live and in virtual time, under every algorithm: the same decisions.

The site's own load command gives both worlds the very same loads. Then the simulator replays each
LIM's history, message by message: a daemon may have decided only by what it received.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core import events as e
from lbd.lim.history_file import NAME
from lbd.model import HostId, JobId, PlacementRequest
from lbd.sim.faults.replay import Replay
from lbd.testing.virtual_cluster import VirtualCluster
from tests.live.cluster import FAST, PREFIX, Lab

pytestmark = pytest.mark.alone

LOADS = {"h1": 3.0, "h2": 2.0, "h3": 0.1}  # two hosts are busy, one is not
CORES = 2.0
PERIOD_S = 0.2
SET = {
    "lim.local_threshold": 0.5, "lim.exchange_period_s": PERIOD_S, "lim.keepalive_s": 0.8,
    # a machine too busy to keep its periods is not tested here
    "lim.stale_after_s": 20.0, "lim.down_after_s": 40.0, "lim.probe_timeout_s": 5.0,
}  # fmt: skip
REST_S = 3 * PERIOD_S

# The host that asks, its option, and the number of commands in the same instant. The first command
# stays on the lightly loaded host: under RESERVE that host makes its reservations when it ends. The
# commands of the centre, h1, come next: it hears of the ends of others' commands a period later.
STEPS = (
    ("h3", {}, 1),
    ("h1", {}, 2),
    ("h1", {"excluded": ["h3"]}, 1),
    ("h1", {"must_stay": True}, 1),
    ("h1", {"wanted": "h2"}, 1),
    ("h2", {}, 1),
    ("h3", {"must_leave": True}, 1),
)


SECOND = 2  # of the two in the same instant, among the decisions


class Live:
    def __init__(self, lab):
        self.lab = lab
        self.replays = {host: Replay() for host in lab.hosts}

    def switch(self, algorithm):
        self.lab.ask("h2", "lim", "algorithm", name=algorithm)
        for host in self.lab.hosts:
            self.lab.wait_until(
                lambda host=host: (
                    self.lab.ask(host, "lim", "algorithm")["algorithm"] == algorithm
                    and {row["name"]: row["index"] for row in self.rows(host)} == LOADS
                ),
                f"{host} follows to {algorithm} and sees the loads",
            )

    def rows(self, host):
        return self.lab.ask(host, "lim", "status")["hosts"]

    def rest(self):
        """Waits until every host has had its periods, which its ten readings a second show."""
        before = self.readings()
        count = 10 * REST_S
        self.lab.wait_until(
            lambda: all(now >= before[host] + count for host, now in self.readings().items()),
            "time passes",
        )

    def readings(self):
        return {host: self.lab.ask(host, "lim", "counters")["readings"] for host in self.lab.hosts}

    def place(self, host, job, options):
        reply = self.lab.ask(host, "lim", "place", job=job, **options)
        return reply["verdict"], reply["host"], reply["reason"]

    def end(self, host, job):
        self.lab.ask(host, "lim", "job", job=job, event="end")

    def replay_reports(self):
        """Replays all histories, and raises Divergence at a difference. Returns the sums over all
        hosts."""
        total = {}
        for host, replay in self.replays.items():
            lines = (self.lab.paths(host).state / NAME).read_text().splitlines(keepends=True)
            for line in lines[replay.lines :]:
                if line.endswith("\n"):  # half a line is read next time
                    replay.feed(line)
            for what, count in replay.seen.items():
                total[what] = total.get(what, 0) + count
        return total


class Simulated:
    def __init__(self, algorithm):
        params = {name.partition(".")[2]: value for name, value in SET.items()}
        lim = replace(LimConfig(), algorithm=algorithm, **params)
        self.cluster = VirtualCluster(len(LOADS), 1, lim)
        self.cluster.run_until(self.cluster.settled, 30, "every host sees every host")
        self.cluster.load(**{name: load * CORES for name, load in LOADS.items()})
        self.cluster.run(3.0)

    def rest(self):
        self.cluster.run(REST_S)

    def place(self, host, job, options):
        excluded = frozenset(map(HostId, options.get("excluded", ())))
        request = PlacementRequest(
            JobId(job), **{**options, "excluded": excluded, "may_wait": False}
        )
        decision, _ = self.cluster.place(host, request)
        return decision.verdict.value, decision.host, decision.reason

    def end(self, host, job):
        self.cluster.handle(self.cluster[host], e.JobEnded(JobId(job)))


def decisions(world, algorithm):
    found = []
    for number, (host, options, times) in enumerate(STEPS):
        jobs = [f"{algorithm}-{number}-{n}" for n in range(times)]
        found += [world.place(host, job, options) for job in jobs]
        for job in jobs:
            world.end(host, job)
        if number == 0:
            world.rest()
    return found


@pytest.fixture(scope="module")
def live():
    with tempfile.TemporaryDirectory(prefix=PREFIX) as told:
        for host, load in LOADS.items():
            Path(told, host).write_text(f"told {load}\n")
        command = f'["sh", "-c", "cat {told}/$LBD_HOST"]'
        lab = Lab.up(
            len(LOADS),
            settings=(
                *FAST, *(f"{name}={value}" for name, value in SET.items()), "load.index=site:told",
                f"load.site_command={command}", f"load.site_period_s={PERIOD_S}",
                "load.site_timeout_s=20",
                f"host.cores={CORES}", "host.speed=1.0", f"lim.history_bytes={1 << 26}",
            ),
        )  # fmt: skip
        yield Live(lab)
        lab.down()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_live_and_simulated_decide_the_same(live, algorithm):
    live.switch(algorithm)
    found, expected = decisions(live, algorithm), decisions(Simulated(algorithm), algorithm)
    if algorithm == "RANDOM":  # at random
        found, expected = (
            [(verdict, why) for verdict, _, why in some] for some in (found, expected)
        )
    elif algorithm == "RESERVE":  # a reservation may have returned between the two
        del found[SECOND], expected[SECOND]
    assert found == expected
    counts = live.replay_reports()
    assert counts[f"decisions under {algorithm}"] == sum(times for _, _, times in STEPS)
    assert counts["messages sent"] > 0
    assert counts["messages received"] > 0
