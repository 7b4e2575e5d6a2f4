"""A cluster of COUNT hosts played by one process, each with its own address, port and certificate:
the first has the authority and is the centre. It serves to measure what joining costs a real host.

Run as `python joined.py DIRECTORY NET COUNT`, NET like 127.7; prints `ready` when all are there.
"""

import asyncio
import sys
import time
from pathlib import Path
from random import Random

sys.path[0] = str(Path(__file__).resolve().parents[2])

from lbd.lim.core import messages as m
from lbd.model import HostId
from lbd.net.call_watch import CallWatch
from lbd.net.lim_network import LimNetwork
from lbd.net.tls import Tls
from lbd.net.trust_service import TrustService
from lbd.testing.builders import published
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles
from tests.bench.crowd import sample

CLUSTER, PORT, PERIOD_S, TIMEOUT_S = "bench", 7901, 1.0, 5.0
DAY_S = 86400.0


def name_of(number: int) -> HostId:
    return HostId(f"c{number:03}")


def address(net: str, number: int) -> str:
    """The address of a host; number 0 is the newcomer's."""
    return f"{net}.{number // 250}.{number % 250 + 1}"


def members(net: str, count: int) -> tuple[m.Member, ...]:
    return tuple(
        m.Member(name_of(n), address(net, n), PORT, PORT, n, 1) for n in range(1, count + 1)
    )


class Played:
    """One host of the cluster."""

    def __init__(self, cluster: "Cluster", member: m.Member, network: LimNetwork) -> None:
        self._cluster = cluster
        self._member = member
        self.network = network

    def answer(self, message: m.Message) -> m.Message:
        body: m.Body = m.Ack()
        if isinstance(message.body, m.Hello):
            self._cluster.greeted(message.body.self)
            if message.body.wants_members:
                body = m.Members(self._cluster.members, m.Settings())
        return m.Message(CLUSTER, self._member.name, 1, body)


class Cluster:
    def __init__(self, directory: Path, net: str, count: int) -> None:
        self.members = members(net, count)
        self._directory = directory
        self._newcomer: m.Member | None = None
        self._rng = Random(1)
        self._hosts: list[Played] = []

    async def open(self) -> None:
        authority = Authority(self._directory / "authority", DAY_S)
        authority.create(CLUSTER, self.members[0].name, time.time())
        for member in self.members:
            files = HostFiles(self._directory / member.name)
            enrol(authority, files, member.name, self.members[0].lim_target, time.time())
            find = (lambda: authority) if member is self.members[0] else None
            tls = Tls(member.name, files, find)
            host = Played(self, member, LimNetwork(tls, 1 << 20, 30.0))
            service = TrustService(tls).handler()
            await host.network.serve(member.address, PORT, host.answer, service)
            self._hosts.append(host)

    def greeted(self, newcomer: m.Member) -> None:
        self._newcomer = newcomer

    async def tell(self) -> None:
        """Sends everybody's load to the newcomer again and again, as the centre does."""
        number = 0
        while True:
            if self._newcomer is not None:
                number += 1
                samples = tuple(sample(one.name, number, self._rng) for one in self.members)
                loads = m.Message(CLUSTER, self.members[0].name, 1, published(*samples))
                to = self._newcomer
                await self._hosts[0].network.ask(to.name, to.lim_target, loads, TIMEOUT_S)
            await asyncio.sleep(PERIOD_S if number else 0.05)


async def play(directory: Path, net: str, count: int) -> None:
    # Every second each server looks at the calls of all servers of its process. In a real host that
    # is one; here there are hundreds.
    CallWatch._look = lambda _watch: None  # type: ignore[method-assign]
    cluster = Cluster(directory, net, count)
    await cluster.open()
    print("ready", flush=True)
    await cluster.tell()


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
