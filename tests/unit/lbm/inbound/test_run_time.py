"""How long a command of a user of another host is said to have run."""

import asyncio
import time

from tests.unit.lbm.inbound.test_attached_job import exits, host, running

__all__ = ["host"]


async def test_a_command_runs_from_when_the_keeper_is_asked_to_start_it(host):
    """A short one that had ended by the time we heard of its begin had run for less time than the
    CPU time that it had used."""
    asked_s, spawn = [], host.link.spawn

    async def spawns(*order):
        asked_s.append(time.monotonic())
        return await spawn(*order)

    host.link.spawn = spawns
    job, serving = await running(host)
    assert job.execution.process.began_s <= asked_s[0]
    exits(host)
    await asyncio.wait_for(serving, 20)
