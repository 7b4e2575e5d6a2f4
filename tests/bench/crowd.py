"""99 hosts played by one process: it greets a LIM in their names, sends it their load over gRPC
again and again as the centre, and accepts whatever the LIM sends. So real messages fill a LIM's
table without 99 more LIMs on the machine.

Run as `python crowd.py PORT KEY_FILE TARGET`; prints `ready` when the LIM knows all of them.
"""

import asyncio
import sys
from pathlib import Path
from random import Random

sys.path[0] = str(Path(__file__).resolve().parents[2])

from lbd.lim.core import messages as m
from lbd.model import HostId, LoadVector, Queues
from lbd.net import transport
from lbd.net.lim_network import LimNetwork
from lbd.testing.builders import published

COUNT = 99
ADDRESS = "127.0.0.1"
CLUSTER = "bench"
PERIOD_S = 1.0
TIMEOUT_S = 5.0
CORES = 4.0
SLOTS = 1 << 20  # never exhausted: every host is a candidate every time


def names() -> list[HostId]:
    return [HostId(f"c{number:03}") for number in range(1, COUNT + 1)]


def member(rank: int, name: HostId, port: int) -> m.Member:
    return m.Member(name, ADDRESS, port, port, rank, incarnation=1)


def sample(name: HostId, number: int, rng: Random) -> m.Sample:
    index = rng.uniform(0.0, 2.0)
    queues = Queues(cpu=index * CORES)
    vector = LoadVector(index, queues, min(1.0, index), CORES, 1.0, SLOTS, 0, 0, 0, True)
    return m.Sample(name, 1, number, 0.0, vector, drained=False)


async def play(port: int, key_file: str, target: str) -> None:
    rng = Random(1)
    network = LimNetwork(transport.Plain("crowd", transport.read_key(key_file)), 1 << 20, 30.0)
    centre = names()[0]

    def answer(_: m.Message) -> m.Message:
        return m.Message(CLUSTER, centre, 1, m.Ack())

    await network.serve(ADDRESS, port, answer)
    for rank, name in enumerate(names()):
        hello = m.Hello(member(rank, name, port), wants_members=False)
        await network.ask("lim", target, m.Message(CLUSTER, name, 1, hello), TIMEOUT_S)
    number = 0
    while True:
        number += 1
        samples = tuple(sample(name, number, rng) for name in names())
        loads = m.Message(CLUSTER, centre, 1, published(*samples))
        await network.ask("lim", target, loads, TIMEOUT_S)
        if number == 1:
            print("ready", flush=True)
        await asyncio.sleep(PERIOD_S)


if __name__ == "__main__":
    asyncio.run(play(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
