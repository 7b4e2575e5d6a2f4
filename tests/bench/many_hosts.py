"""A large cluster starts, loses a tenth of its hosts at once, and heals.

`.venv/bin/python tests/bench/many_hosts.py [--virtual 1000] [--real 100] [--algorithm GLOBAL]`

There are two of them, one after the other (0: not that one). The first is in virtual time: the
states that run in production, in one process, every message encoded as on the wire. The second is
of real daemons, LIM, LBM and keeper of each host, on this machine's loopback. A step is over when
each living host sees exactly the living ones as up and all name one centre.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.errors import LbdError
from lbd.local.json_socket import ask
from lbd.testing.virtual_cluster import VirtualCluster

LOST_SHARE = 0.1
LIMIT_S = 120.0
REAL_LIMIT_S = 1800.0  # on two cores a hundred hosts take minutes to start
LOOK_S = 1.0


def main() -> None:
    options = parsed()
    if options.virtual:
        in_virtual_time(options.virtual, LimConfig(algorithm=options.algorithm), options.seed)
    if options.real:
        real(options.real, options.algorithm)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--virtual", type=int, default=1000, metavar="HOSTS")
    parser.add_argument("--real", type=int, default=100, metavar="HOSTS")
    parser.add_argument("--algorithm", choices=ALGORITHMS, default="GLOBAL")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def lost(names: list[str]) -> list[str]:
    """Every tenth host, so not only the first ranks."""
    return names[1 :: round(1 / LOST_SHARE)]


def in_virtual_time(hosts: int, lim: LimConfig, seed: int) -> None:
    print(f"{hosts} hosts in virtual time, {lim.algorithm}, seed {seed}")
    cluster = VirtualCluster(hosts, seed, lim)
    cluster.check_each_event = False
    some = lost(list(cluster.names))

    def step(what: str) -> None:
        began_s, cpu_s = cluster.now_s, time.process_time()
        for host in cluster.hosts.values():
            host.bytes = 0
        cluster.run_until(cluster.settled, LIMIT_S, what)
        took_s = cluster.now_s - began_s
        mean = sum(host.bytes for host in cluster.hosts.values()) / hosts
        per_s = f"{mean / max(took_s, 1.0):8,.0f} B/s a host"
        print(
            f"  {what:<34} {took_s:6.1f} s  {per_s}  ({time.process_time() - cpu_s:.0f} s of CPU)"
        )

    step("all have met")
    for name in some:
        cluster.crash(name)
    step(f"{len(some)} died at once, all know it")
    for name in some:
        cluster.start(cluster.hosts[name].state.me)
    step("they are back")
    cluster.cut(*some)
    cluster.run(lim.down_after_s + lim.centre_silence_s)
    cluster.heal()
    step("they were cut off, and it healed")
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {mib:,.0f} MiB, {mib / hosts:.1f} a host")


def real(hosts: int, algorithm: str) -> None:
    print(f"{hosts} hosts of real daemons, {algorithm}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="lbd-many-") as directory:
        root = Path(directory) / "lab"
        try:
            began_s = time.monotonic()
            lab(root, "up", "--hosts", hosts, "--isolate", "none", "--algorithm", algorithm,
                "--set", "dispatch.host=")  # fmt: skip
            print(f"  {'all have met':<34} {time.monotonic() - began_s:6.1f} s")
            lose_and_heal(root)
        finally:
            lab(root, "down")


def lose_and_heal(root: Path) -> None:
    pids = {
        row["name"]: [daemon["pid"] for daemon in row["daemons"].values()]
        for row in json.loads(lab(root, "status", "--json"))["hosts"]
    }
    some = lost(list(pids))
    others = [name for name in pids if name not in some]

    def step(what: str, asked: Iterable[str], up: set[str]) -> None:
        began_s = time.monotonic()
        until(lambda: all_see(root, asked, up), what)
        print(f"  {what:<34} {time.monotonic() - began_s:6.1f} s")

    for name in some:
        for pid in pids[name]:
            os.kill(pid, signal.SIGKILL)
    step(f"{len(some)} died at once, all know it", others, set(others))
    for name in some:
        lab(root, "start", name)
    step("they are back", pids, set(pids))


def until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + REAL_LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise SystemExit(f"not within {REAL_LIMIT_S:.0f} s: {what}")
        time.sleep(LOOK_S)


def all_see(root: Path, asked: Iterable[str], up: set[str]) -> bool:
    """Whether each host asked sees exactly these as up, and all name one centre."""
    centres: set[str] = set()
    for name in asked:
        try:
            status = ask(root / name / "run" / "lim.sock", {"op": "status"})
        except LbdError:  # it is starting
            return False
        centres.add(str(status["cluster"]["centre"]))
        if {row["name"] for row in status["hosts"] if row["state"] == "up"} != up:
            return False
    return len(centres) == 1


def lab(root: Path, *words: object) -> str:
    program = Path(sys.executable).with_name("lbd")
    argv = [str(program), "lab", str(words[0]), "--dir", str(root), *map(str, words[1:])]
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
