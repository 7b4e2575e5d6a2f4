"""The CPU time of jobs that run, as the hosts say where they do."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lbd.errors import LbdError
from lbd.keeper.run_as import Asker
from lbd.lbm.inbound.cpu_used import CpuUsed
from lbd.lbm.session.cluster import Cluster
from lbd.lbm.session.job_records import TIME_MAX
from lbd.local.json_socket import Json
from lbd.model import JobState
from lbd.net.gen import lbm_pb2

ASK_S = 0.5  # nobody waits for longer to see that
USED_MAX = 100_000  # jobs of one host
LIVE = JobState.RUNNING.value, JobState.SUSPENDED.value


@dataclass(frozen=True, slots=True)
class CpuOfJobs:
    own: str  # this host
    here: CpuUsed
    cluster: Cluster

    async def add(self, jobs: Iterable[Json], asker: Asker) -> None:
        """To the objects of the contract. Each host where one of them runs is asked."""
        running = [job for job in jobs if job["state"] in LIVE]
        hosts = sorted({str(job["host"]) for job in running})
        found = await asyncio.gather(*(self._on(host, asker) for host in hosts))
        add_cpu(running, dict(zip(hosts, found, strict=True)))

    async def _on(self, host: str, asker: Asker) -> Mapping[str, float]:
        """By job; nothing of a host that does not say."""
        if host == self.own:
            return await self.here.by_job()
        asked = lbm_pb2.JobsRequest(user=asker.user, uid=max(0, asker.uid))
        try:
            peer = await self.cluster.peer(host)
            if peer.is_down:
                return {}
            reply = await self.cluster.ask(peer, "Jobs", asked, lbm_pb2.JobsReply, ASK_S)
        except LbdError:
            return {}
        return used_in(reply)


def used_in(reply: lbm_pb2.JobsReply) -> dict[str, float]:
    """By job, as far as it makes sense: any host says that."""
    return {one.job: one.cpu_s for one in reply.used[:USED_MAX] if 0 <= one.cpu_s <= TIME_MAX}


def add_cpu(jobs: Iterable[Json], used: Mapping[str, Mapping[str, float]]) -> None:
    """`used`: by host and job."""
    for job in jobs:
        cpu_s = used.get(str(job["host"]), {}).get(str(job["id"]))
        if cpu_s is None or job["state"] not in LIVE:
            continue
        job["cpu_s"] = cpu_s
        attempts = job.get("attempts")
        last = attempts[-1] if isinstance(attempts, list) and attempts else None
        if isinstance(last, dict) and last.get("host") == job["host"]:
            last["cpu_s"] = cpu_s
