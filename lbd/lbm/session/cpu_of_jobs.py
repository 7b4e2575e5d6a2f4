"""The CPU time of running jobs, as reported by the hosts where they run."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping

from lbd.errors import LbdError
from lbd.keeper.local_account import Asker
from lbd.lbm.session.cluster import Cluster
from lbd.lbm.session.cpu_used import CpuUsed
from lbd.lbm.session.job_records import TIME_MAX
from lbd.local.json_socket import Json
from lbd.model import JobState
from lbd.net.gen import lbm_pb2

ASK_S = 0.5  # nobody waits longer for these figures
KEPT_S = 1.0
HOSTS_KEPT = 4096  # a bad dispatcher may name any number of hosts
USED_MAX = 100_000  # jobs of one host
LIVE = JobState.RUNNING.value, JobState.SUSPENDED.value


class CpuOfJobs:
    """Asks each host at most once a second, however many users list its jobs."""

    def __init__(self, own: str, here: CpuUsed, cluster: Callable[[], Cluster]) -> None:
        self._own, self.here, self._cluster = own, here, cluster
        self._asked: dict[str, tuple[float, asyncio.Task[Mapping[str, float]]]] = {}

    async def add(self, jobs: Iterable[Json], asker: Asker) -> None:
        """Adds the CPU time to the objects of the contract."""
        running = [job for job in jobs if job["state"] in LIVE]
        hosts = sorted({str(job["host"]) for job in running})
        found = await asyncio.gather(*(self._on(host, asker) for host in hosts))
        add_cpu(running, dict(zip(hosts, found, strict=True)))

    async def _on(self, host: str, asker: Asker) -> Mapping[str, float]:
        """CPU seconds by job."""
        if host == self._own:
            return await self.here.by_job()
        now_s = asyncio.get_running_loop().time()
        asked_s, asking = self._asked.get(host, (-KEPT_S, None))
        if asking is None or now_s - asked_s >= KEPT_S:
            if len(self._asked) >= HOSTS_KEPT:
                self._asked.clear()
            asking = asyncio.create_task(self._ask(host, asker), name=f"CPU time on {host}")
            self._asked[host] = now_s, asking
        return await asyncio.shield(asking)

    async def _ask(self, host: str, asker: Asker) -> Mapping[str, float]:
        """Returns nothing for a host that does not answer."""
        asked = lbm_pb2.JobsRequest(user=asker.user, uid=max(0, asker.uid))
        try:
            cluster = self._cluster()
            peer = await cluster.peer(host)
            if peer.is_down:
                return {}
            own_uid = os.geteuid()  # the answer is for all users
            reply = await cluster.ask(own_uid, peer, "Jobs", asked, lbm_pb2.JobsReply, ASK_S)
        except LbdError:
            return {}
        return used_in(reply)


def used_in(reply: lbm_pb2.JobsReply) -> dict[str, float]:
    """CPU seconds by job. Invalid figures are dropped: any host may send them."""
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
