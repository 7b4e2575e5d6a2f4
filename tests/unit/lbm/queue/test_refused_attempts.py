"""Nothing of an attempt whose files could not be had is kept once its end is settled: neither its
request nor the orders made from it. They are megabytes, and a task that refuses may do so in a
moment on each host."""

import asyncio
import errno
import gc
import os
import weakref
from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.lbm.inbound import performer
from lbd.lbm.keeper_link import Forked, ProcessExit, Spawned, SpawnFailed
from lbd.lbm.staging.workdirs import AWAY, FilesRefused
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from tests.unit.lbm.queue.test_attempt_guards import KEY, Link, attempts, host, start, start_of
from tests.unit.until import until

__all__ = ["attempts", "host"]


class Workdirs:
    refused = None

    async def open(self, request, run_as, most):
        if self.refused is not None:
            raise self.refused()

    def get(self, name):
        return SimpleNamespace(path=b"/tmp")

    def end(self, name):
        pass


class Spools:
    trouble = None

    async def files(self, host, request):
        if self.trouble is not None:
            raise self.trouble()
        yield b"a pack"


class StepLink(Link):
    """The keeper whose children for steps on files end as told; it runs commands."""

    failed = status = None

    async def spawn(self, order, descriptors, stopped, limit):
        if not order.worker:
            return await super().spawn(order, descriptors, stopped, limit)
        spawned = Spawned(stopped)
        if self.failed is not None:
            spawned.fail(self.failed())
            return spawned
        spawned.begun.set_result(Forked(1, ""))
        spawned.exited.set_result(ProcessExit(self.status or 0, 0.0, 0.0, 0, False))
        return spawned


@pytest.fixture
def files(host, attempts, tmp_path):
    """Where the files of an attempt come from, and what happens to them."""
    host.link, host.workdirs = StepLink(), Workdirs()
    host.look_up_user = None
    client = attempts._client
    client.spools, client.spool.root = Spools(), tmp_path
    client.spool.pack = lambda job, attempt: tmp_path / "pack"
    client.spool.calls = SimpleNamespace(start=lambda *_: None)
    client.spool.open_pack = lambda *_: os.open(os.devnull, os.O_WRONLY)
    return SimpleNamespace(workdirs=host.workdirs, spools=client.spools, link=host.link)


def of_an_attempt():
    names = ("Attempt", "AttemptFiles", "Order", "Workdir")
    return [one for one in gc.get_objects() if type(one).__name__ in names]


async def run(attempts, files, gang_hosts=()):
    order = start_of(workdir=lbm_pb2.WorkdirStep(fetch=[b"x"]))
    order.gang_hosts.extend(gang_hosts)
    order.spec.files = "0" * 32
    kept = weakref.ref(start(attempts, order))
    await until(lambda: kept().is_over or kept().execution.process is not None)
    if kept().execution.process is not None:
        files.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: kept().is_over)
    await until(lambda: kept().execution.is_reported)
    files.link.spawns.clear()
    files.link.orders.clear()
    attempts._settled(pb.Held(job=KEY[0], attempt=KEY[1]))
    return kept


WAYS = {
    "no place": ("workdirs", "refused", lambda: FilesRefused("full", AWAY)),
    "its host is away": ("spools", "trouble", lambda: Unavailable("h2 is away")),
    "no disk": ("spools", "trouble", lambda: OSError(errno.ENOSPC, "no space")),
    "they do not fit": ("link", "status", errno.ENAMETOOLONG),
    "no process": ("link", "failed", lambda: SpawnFailed("fork", errno.EAGAIN)),
    "a fault of ours": ("workdirs", "refused", lambda: KeyError("a fault")),
    "it ran": ("link", "status", 0),
}


@pytest.mark.parametrize(
    ("way", "gang_hosts"), [*((way, ()) for way in WAYS), ("no disk", ("h1", "h2"))]
)
async def test_nothing_is_kept(attempts, files, monkeypatch, way, gang_hosts):
    gc.collect()
    gc.disable()
    try:
        before = len(of_an_attempt())
        monkeypatch.setattr(performer.job_log, "error", lambda *_, **__: None)  # pytest keeps it
        part, name, how = WAYS[way]
        setattr(getattr(files, part), name, how)
        kept = await run(attempts, files, gang_hosts)
        await asyncio.sleep(0)
        assert (kept(), len(of_an_attempt())) == (None, before)
    finally:
        gc.enable()
