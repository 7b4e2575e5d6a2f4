"""Bytes and messages that telling each other the load costs, by algorithm and number of hosts,
beside the most that the thesis's description of the algorithm allows.

`.venv/bin/python tests/bench/load_bytes.py [--hosts 10,100,1000] [--seconds 10] [--jump 10]`
(with 1000 hosts some minutes for each algorithm).

The states that run in production, in virtual time, every message encoded as on the wire (without
what HTTP/2 adds, some 50 to 150 bytes a message). Each host's queue jumps every `--jump` seconds on
average to 0, 1, 2 or 4 tasks on 2 cores; on each host a command asks for a place once in 2 s.

A message is one that a host sends; its answer comes back with it and is in the bytes alone. The
network here broadcasts nothing: what the thesis broadcasts is a message to every other host.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from random import Random

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core.publication import HEARTBEATS_PER_SILENCE
from lbd.model import HostId
from lbd.policy.registry import POLICIES
from lbd.policy.view import Reporting
from lbd.testing.builders import request
from lbd.testing.virtual_cluster import VirtualCluster

JUMP_S = 10.0
QUEUES = (0.0, 1.0, 2.0, 4.0)
COMMANDS_PER_S = 0.5
ASKING = ("THRHLD", "LOWEST", "RESERVE", "P2C", "PREDICT")  # up to L_p hosts for a command
HEADER = (
    "hosts",
    "algorithm",
    "B/s a host",
    "B/s centre",
    "msg/s a host",
    "thesis",
    "alive",
    "took",
)


def main() -> None:
    options = parsed()
    print(f"seed {options.seed}, {options.seconds} s of virtual time after settling; thesis: the")
    print("most it allows; alive: what may come on top to say who is alive")
    print("{:>6} {:<10} {:>12} {:>12} {:>14} {:>8} {:>6} {:>8}".format(*HEADER))
    for hosts in map(int, options.hosts.split(",")):
        for algorithm in options.algorithms.split(","):
            began_s = time.process_time()
            mean, centre, messages = measure(
                hosts, algorithm, options.seconds, options.seed, jump_s=options.jump
            )
            took_s = time.process_time() - began_s
            figures = f"{mean:>12,.0f} {centre:>12,.0f} {messages:>14.2f}"
            most = f"{bound(algorithm, hosts):>8.2f} {keep_alives(hosts):>6.2f}"
            print(f"{hosts:>6} {algorithm:<10} {figures} {most} {took_s:>6.1f} s", flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="10,100,1000")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS))
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--jump", type=float, default=JUMP_S)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def bound(algorithm: str, hosts: int, lim: LimConfig | None = None) -> float:
    """The most messages a second that a host sends, as a mean of all hosts, by the thesis (1987,
    sections 3.3 and 3.4.1): it reports a change once a period at most, and a command asks L_p
    hosts.

    RESERVE there asks after departures, R hosts at most; here once a period at most. P2C and
    PREDICT are not the thesis's: their bound is GLOBAL's reports and LOWEST's questions.
    """
    lim = lim or LimConfig()
    to_centre = (hosts - 1) / hosts / lim.exchange_period_s
    told = {
        Reporting.VECTOR: 2 * to_centre,  # and from it
        Reporting.CENTRE: to_centre,
        Reporting.EVERYBODY: hosts * to_centre,
        Reporting.RESERVATIONS: lim.reservations / lim.exchange_period_s,
        Reporting.NOBODY: 0.0,
    }[POLICIES[algorithm].reporting]
    asked = lim.probe_limit if algorithm in ASKING else float(algorithm == "CENTRAL")
    return told + asked * COMMANDS_PER_S


def keep_alives(hosts: int, lim: LimConfig | None = None) -> float:
    """Messages that the thesis does not have: each host's report, and the centre's vectors, full
    ones and others."""
    lim = lim or LimConfig()
    beat_s = min(lim.keepalive_s, lim.centre_silence_s / HEARTBEATS_PER_SILENCE)
    return (hosts - 1) / hosts * (2 / lim.keepalive_s + 1 / beat_s)


def measure(
    hosts: int, algorithm: str, seconds: int, seed: int, changing: bool = True,
    jump_s: float = JUMP_S,
) -> tuple[float, float, float]:  # fmt: skip
    """Bytes in and out per second of a host (mean; the centre's), messages it sent per second.

    Without `changing`, no queue ever changes and no command asks for a place.
    """
    cluster = VirtualCluster(hosts, seed, LimConfig(algorithm=algorithm))
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 60, "every host sees every host")
    all_have_met(cluster)
    rng = Random(seed)
    for second in range(-5, seconds):
        if second == 0:
            for host in cluster.hosts.values():
                host.bytes = 0
                host.sent.clear()
        if changing:
            one_second(cluster, rng, jump_s)
        else:
            cluster.run(1.0)
    rows = list(cluster.hosts.values())
    centre = cluster[cluster.agreed_centre() or "h1"].bytes
    sent = sum(sum(host.sent.values()) for host in rows)
    mean = sum(host.bytes for host in rows) / hosts
    return mean / seconds, centre / seconds, sent / hosts / seconds


def all_have_met(cluster: VirtualCluster) -> None:
    """Waits until hosts have greeted one another, which takes minutes and is no exchange of
    load."""
    for host in cluster.hosts.values():
        for name in cluster.names:
            host.state.membership.hello_answered(name, to=name)


def one_second(cluster: VirtualCluster, rng: Random, jump_s: float) -> None:
    for name, host in cluster.hosts.items():
        if rng.random() < 1.0 / jump_s:
            host.queue = rng.choice(QUEUES)
        if rng.random() < COMMANDS_PER_S:
            cluster.at(rng.random(), partial(ask_for_a_place, cluster, name))
    cluster.run(1.0)


def ask_for_a_place(cluster: VirtualCluster, name: HostId) -> None:
    cluster.submit(name, request(f"{name}-{cluster.now_s}"), lambda _: None, dry=True)


if __name__ == "__main__":
    main()
