"""LIMs on the memory network, for tests of the daemon's shell and of lim.sock."""

import asyncio
import os
from contextlib import asynccontextmanager

from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry, LimConfig, LoadConfig
from lbd.lim.daemon import Lim
from lbd.lim.socket import Operations
from lbd.local.caller import Caller
from lbd.net.lim_network import Traffic
from lbd.testing.memory_network import Exchange, MemoryNetwork

ROOT = Caller(os.getpid(), 0, 0)
NOBODY = Caller(999_999, 65534, 65534)
LIM = LimConfig(exchange_period_s=0.05, probe_timeout_s=0.1)
PLACE = {"op": "place", "job": "h1-1"}
LBM = {"op": "lbm", "slots_total": 2, "slots_used": 0, "local": 0, "foreign": 0, "accepting": True}


def config(tmp_path, name="h1", hosts=("h1", "h2"), lim=LIM) -> Config:
    entries = tuple(HostEntry(host, f"127.0.0.{number}") for number, host in enumerate(hosts, 1))
    address = next((entry.address for entry in entries if entry.name == name), "127.0.0.99")
    return Config(
        cluster=ClusterConfig(hosts=entries),
        host=HostConfig(
            name=name,
            address=address,
            runtime_dir=str(tmp_path / name / "run"),
            state_dir=str(tmp_path / name / "state"),
            speed=1.0,
        ),
        load=LoadConfig(scope="host"),
        lim=lim,
    )


class Daemon:
    """One LIM of the test's cluster."""

    def __init__(self, settings: Config, exchange: Exchange | None) -> None:
        self.network = MemoryNetwork(settings.host.name, exchange) if exchange else None
        self.lim = Lim(settings, self.network)
        self.operations = Operations(self.lim, Traffic())
        self.stop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self.network is not None:
            host = self.lim.config.host
            await self.network.serve(host.address, self.lim.config.lim.port, self.lim.answer)
        self.task = asyncio.create_task(self.lim.run(self.stop))

    async def ask(self, request, caller=ROOT):
        return await self.operations.handle(request, caller)


@asynccontextmanager
async def running(*settings: Config, alone: bool = False):
    exchange = None if alone else Exchange()
    daemons = [Daemon(one, exchange) for one in settings]
    for daemon in daemons:
        await daemon.start()
    yield daemons
    for daemon in daemons:
        daemon.stop.set()
    await asyncio.gather(*(daemon.task for daemon in daemons), return_exceptions=True)


def up(daemon: Daemon, *names: str) -> bool:
    hosts = daemon.lim.state.table.view(None, asyncio.get_running_loop().time()).hosts
    return all(name in hosts and hosts[name].alive for name in names)
