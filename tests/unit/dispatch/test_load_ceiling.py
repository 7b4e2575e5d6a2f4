"""`dispatch.load_ceiling`: a host above it starts no queued jobs, and each job says so."""

import asyncio

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config
from tests.unit.dispatch.services import asking, opened

CONFIG = Config(dispatch=DispatchConfig(load_ceiling=1.2))


async def test_a_host_above_the_ceiling_starts_no_queued_jobs(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", CONFIG) as world:
        line = world.host("h2", load=1.3)
        assert not (await world.submit(asking())).error
        (job,) = (await world.jobs()).jobs
        assert (job.state, line.starts) == ("pending", [])
        assert "its load of 1.3 is above dispatch.load_ceiling, 1.2" in job.reason
        world.host("h2", load=1.2)
        async with asyncio.timeout(20):
            while not line.starts:  # noqa: ASYNC110  # the ledger is written by a thread
                await asyncio.sleep(0.01)
