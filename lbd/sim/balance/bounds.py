"""Bounds on all algorithms (Zhou 1987, section 3.3): they know every present queue at no cost.
NoCOST also moves jobs at no cost, so it moves any job that gains; PartCOST pays for moves.

Hosts are chosen as in GLOBAL, with jobs on their way to a host counted as if they were there.
"""

from random import Random

from lbd.model import HostId, JobId, PlacementRequest, Verdict
from lbd.model import Placement as Decision
from lbd.policy.registry import POLICIES
from lbd.policy.view import HostView, View
from lbd.sim.balance.engine import Engine
from lbd.sim.balance.workload import Job


class PerfectKnowledge:
    def __init__(self, engine: Engine, moves_cost: bool, rng: Random) -> None:
        self.job_threshold_s = engine.setup.lim.job_threshold_s if moves_cost else 0.0
        self._engine = engine
        self._moves_cost = moves_cost
        self._rng = rng
        self._names = [HostId(f"h{number + 1}") for number in range(engine.setup.hosts)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._policy = POLICIES["GLOBAL"]

    def place(self, job: Job, now_s: float) -> None:
        engine = self._engine
        hosts = {}
        for name, cpu, coming in zip(self._names, engine.cpus, engine.coming, strict=True):
            power = cpu.cores * cpu.speed
            tasks = len(cpu) + coming
            hosts[name] = HostView(name, tasks / power, (tasks + 1) / power, now_s, True, "")
        view = View(hosts[self._names[job.origin]], hosts, engine.setup.lim, now_s, None)
        request = PlacementRequest(JobId(str(job.number)))
        found = self._policy.next_step(request, view, (), self._rng)
        assert isinstance(found, Decision)
        if found.verdict is Verdict.THERE:
            engine.move(job, self._numbers[found.host], now_s, self._moves_cost)
        else:
            engine.start(job, job.origin, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        pass

    def departed(self, host: int) -> None:
        pass
