"""Faults of a lab's daemons, drawn from a seed and later repaired."""

import contextlib
import heapq
import os
import random
import signal
import time
from dataclasses import dataclass, field

from lbd.errors import LbdError
from lbd.lab import hosts, processes
from tests.live.cluster import Lab
from tests.postgres import Postgres

DATABASE_SHARE = 0.05  # share of all faults


@dataclass
class Misfortunes:
    """Faults of the cluster; several may be active at once, and each is repaired a while later."""

    lab: Lab
    rng: random.Random
    database: Postgres | None = None
    spared: str = ""  # no daemon of this host is touched
    mends: list = field(default_factory=list)
    told: list = field(default_factory=list)

    def run(self, until_s):
        while time.monotonic() < until_s:
            if len(self.mends) < self.rng.choice((1, 1, 2, 3)):
                self.happen()
            while self.mends and self.mends[0][0] <= time.monotonic():
                self.mend()
            time.sleep(self.rng.uniform(0.0, 0.3))
        while self.mends:
            self.mend()
        self.lab.heal()

    def happen(self):
        host = self.rng.choice([host for host in self.lab.hosts if host != self.spared])
        what = self.rng.choice(("kill", "kill", "term", "stop", "stop", "cut", "host", "keeper"))
        part = self.rng.choice(("lim", "lbm", "lbm", "dispatcher"))
        if part == "dispatcher" and what in ("kill", "term", "stop") and not self.spared:
            host = leader(self.lab)
        if self.database is not None and self.rng.random() < DATABASE_SHARE:
            what = "database"
            self.database.stop()
            time.sleep(self.rng.uniform(0.0, 1.0))
            self.database.start()
        elif what in ("kill", "term"):
            signal_daemon(self.lab, host, part, f"SIG{what.upper()}")
            self.later(0.0, 2.0, "start", host, part)
        elif what == "stop":
            signal_daemon(self.lab, host, part, "SIGSTOP")
            self.later(0.3, 5.0, "go on", host, part)
        elif what == "keeper":
            signal_daemon(self.lab, host, "keeper", self.rng.choice(("SIGKILL", "SIGTERM")))
        elif what == "cut":
            one, other = self.rng.sample(self.lab.hosts, 2)
            self.lab.lab("cut", one, other, check=False)
            self.later(0.3, 5.0, "heal")
            host = f"{one}-{other}"
        else:
            self.lab.lab("kill", host, "host", check=False)
            self.later(0.2, 3.0, "start", host)
        self.told.append(f"{what} {host} {part}")

    def later(self, least_s, most_s, *words):
        due_s = time.monotonic() + self.rng.uniform(least_s, most_s)
        heapq.heappush(self.mends, (due_s, len(self.told), words))

    def mend(self):
        *_, (what, *words) = heapq.heappop(self.mends)
        if what == "go on":
            signal_daemon(self.lab, *words, "SIGCONT")
        else:
            self.lab.lab(what, *words, check=False)


def leader(lab):
    """The host whose dispatcher leads, or any host if none does."""
    for host in lab.hosts:
        with contextlib.suppress(LbdError):
            if lab.ask(host, "dispatcher", "status", timeout_s=0.3)["leads"]:
                return host
    return lab.hosts[0]


def signal_daemon(lab, host, part, name):
    """Sends a signal without starting a program, which takes longer than some jobs. The daemon
    alone gets it: its keeper's spares have the daemon's mark, and may have become jobs by the time
    the signal comes."""
    if part == "keeper":
        found = [hosts.keepers(lab.record).get(host)]
    else:
        own = [one.process for one in lab.processes() if (one.host, one.part) == (host, part)]
        word = part.encode()
        found = [one for one in own if word in processes.command_line(one.pid).split(b"\0")]
    for process in filter(None, found):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.Signals[name])


def set_right(lab):
    """Heals the network, continues and starts all daemons, and waits until all hosts see each
    other."""
    lab.heal()
    for host in lab.hosts:
        for part in ("lim", "lbm", "dispatcher"):
            signal_daemon(lab, host, part, "SIGCONT")
        lab.lab("start", host, check=False)
    lab.wait_until(
        lambda: all(set(lab.states(host).values()) == {"up"} for host in lab.hosts),
        "all are up",
        30,
    )
