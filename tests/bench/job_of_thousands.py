"""How long other users wait for the keeper while a job of thousands of processes ends.

`.venv/bin/python tests/bench/job_of_thousands.py [--processes 12000] [--runs 3]` (root, for the
cgroups of version 1): a keeper of its own, one job whose processes do nothing, and orders that
it refuses because they cannot be read. Shown is the longest that it took to refuse one, before and
then from the order to end the large job until nothing is left of that.

Held by a cgroup of version 2, of version 1, and by neither (the job's session and its mark).
"""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.config.schema import Config, HostConfig
from lbd.keeper import protocol as keeper
from lbd.keeper.spawn_order import Order
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.keeper_link import KeeperLink, Spawned, SpawnFailed
from lbd.model import JobId

KINDS = {"cgroup2": "", "cgroup1": "umount -a -t cgroup2", "session": "umount -a -t cgroup2,cgroup"}
MANY, ASKED = JobId("1.1"), JobId("2.1")
PATIENCE_S = 120.0
PAUSE_S = 0.002
CROWD = b"""
import os, signal, sys
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        if len(sys.argv) > 3:
            os.setsid()
        signal.pause()
open(sys.argv[2], "w").close()
signal.pause()
"""


def main() -> None:
    options = parsed()
    if options.kind:
        asyncio.run(measure(options))
        return
    print(f"{options.processes} processes, load {os.getloadavg()[0]:.1f}")
    for kind, hide in KINDS.items():
        again = [sys.executable, __file__, *sys.argv[1:], "--kind", kind]
        script = f'mount --make-rprivate / && {hide or ":"} && exec "$@"'
        subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *again], check=True)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=12_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help="only this, which must be what is there")
    return parser.parse_args()


async def measure(options: argparse.Namespace) -> None:
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as directory:
            await one_run(options, Path(directory))


async def one_run(options: argparse.Namespace, directory: Path) -> None:
    config = Config(host=HostConfig(name="h1", runtime_dir=str(directory)))
    config = replace(config, users=replace(config.users, allow_root=True))
    gone = asyncio.Event()
    link = KeeperLink(gone.set)
    await link.connect(directory / "keeper.sock", config)
    link.adopted()
    assert link.about.containment == options.kind, link.about
    try:
        await end_many(link, options.processes, directory / "all")
    finally:
        await link.send(keeper.QUIT)
        await asyncio.wait_for(gone.wait(), PATIENCE_S)


async def end_many(link: KeeperLink, processes: int, there: Path) -> None:
    crowd = [sys.executable.encode(), b"-c", CROWD, b"%d" % processes, bytes(there)]
    many = await begin(link, MANY, crowd)
    while not there.exists():  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    before = cpu_s(link.pid)
    longest_s = await longest(link, 50)
    print(f"  {link.about.containment:<8} before {longest_s * 1e3:6.0f} ms", end="", flush=True)
    began_s = time.monotonic()
    await link.send(keeper.END_TREE, MANY)
    longest_s = 0.0
    while not many.exited.done():
        longest_s = max(longest_s, await longest(link, 1))
    took_s = time.monotonic() - began_s
    used_s = cpu_s(link.pid) - before
    print(
        f"  meanwhile {longest_s * 1e3:6.0f} ms  ended after {took_s:5.2f} s  CPU {used_s:5.2f} s"
    )


async def longest(link: KeeperLink, times: int) -> float:
    """The longest time to refuse one of so many orders."""
    found_s, unreadable = 0.0, replace(order_of(ASKED, [b"true"]), stamp=Stamp("two words", 1, 2))
    for _ in range(times):
        asked_s = time.monotonic()
        spawned = await link.spawn(unreadable, [], lambda _: None)
        with contextlib.suppress(SpawnFailed):
            await spawned.begun
        found_s = max(found_s, time.monotonic() - asked_s)
        await asyncio.sleep(PAUSE_S)
    return found_s


async def begin(link: KeeperLink, job: JobId, argv: list[bytes]) -> Spawned:
    spawned = await link.spawn(order_of(job, argv), [], lambda _: None)
    await asyncio.wait_for(spawned.begun, PATIENCE_S)
    return spawned


def order_of(job: JobId, argv: list[bytes]) -> Order:
    return Order(job=job, argv=argv, environment={b"PATH": b"/usr/bin:/bin"}, closed_fds=7)


def cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
