"""Bytes and messages that telling each other the load costs, by algorithm and number of hosts.

`.venv/bin/python tests/bench/load_bytes.py [--hosts 4,40,400] [--seconds 10] [--seed 1]`
(with 400 hosts some minutes).

The states that run in production, in virtual time, every message encoded as on the wire (without
what HTTP/2 adds, some 50 to 150 bytes a message). Each host's queue jumps every 10 s on average to
0, 1, 2 or 4 tasks on 2 cores; on each host a command asks for a place once in 2 s.
"""

import argparse
import sys
import time
from pathlib import Path
from random import Random

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, instead of this directory

from lbd.config import ALGORITHMS, LimConfig
from lbd.testing.builders import request
from lbd.testing.virtual_cluster import VirtualCluster

JUMP_S = 10.0
QUEUES = (0.0, 1.0, 2.0, 4.0)
COMMANDS_PER_S = 0.5
HEADER = ("hosts", "algorithm", "B/s a host", "B/s centre", "msg/s a host", "took")


def main() -> None:
    options = parsed()
    print(f"seed {options.seed}, {options.seconds} s of virtual time after settling")
    print("{:>6} {:<10} {:>12} {:>12} {:>14} {:>8}".format(*HEADER))
    for hosts in map(int, options.hosts.split(",")):
        for algorithm in ALGORITHMS:
            began_s = time.monotonic()
            mean, centre, messages = measure(hosts, algorithm, options.seconds, options.seed)
            took_s = time.monotonic() - began_s
            figures = f"{mean:>12,.0f} {centre:>12,.0f} {messages:>14.2f} {took_s:>6.1f} s"
            print(f"{hosts:>6} {algorithm:<10} {figures}", flush=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", default="4,40,400")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def measure(
    hosts: int, algorithm: str, seconds: int, seed: int, changing: bool = True
) -> tuple[float, float, float]:
    """Bytes in and out per second of a host (mean; the centre's), messages it sent per second.

    Without `changing`, no queue ever changes and no command asks for a place.
    """
    cluster = VirtualCluster(hosts, seed, LimConfig(algorithm=algorithm))
    cluster.check_each_event = False
    cluster.run_until(cluster.settled, 60, "every host sees every host")
    dice = Random(seed)
    for second in range(-5, seconds):
        if second == 0:
            for host in cluster.hosts.values():
                host.bytes = 0
                host.sent.clear()
        if changing:
            one_second(cluster, dice)
        else:
            cluster.run(1.0)
    rows = list(cluster.hosts.values())
    centre = cluster[cluster.agreed_centre() or "h1"].bytes
    sent = sum(sum(host.sent.values()) for host in rows)
    mean = sum(host.bytes for host in rows) / hosts
    return mean / seconds, centre / seconds, sent / hosts / seconds


def one_second(cluster: VirtualCluster, dice: Random) -> None:
    end_s = cluster.now_s + 1.0
    for name, host in cluster.hosts.items():
        if dice.random() < 1.0 / JUMP_S:
            host.queue = dice.choice(QUEUES)
        if dice.random() < COMMANDS_PER_S:
            cluster.place(name, request(f"{name}-{cluster.now_s}"), dry=True)
    cluster.run(max(0.0, end_s - cluster.now_s))


if __name__ == "__main__":
    main()
