"""What goes wrong, when and for how long, drawn from a seed; and a run of a cluster under it.

A run keeps placing commands, because what commands meet is what counts. Safety is asserted after
every event (`LimCluster.check_invariants`) and at every decision. After the last fault the network
is whole again, and the cluster must converge as `converge` says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from lbd.config.schema import LimConfig
from lbd.lim.core import events as e
from lbd.model import HostId, JobId, Placement, PlacementRequest, Verdict
from lbd.policy.view import Decision, Nowhere
from lbd.sim.faults.lim_cluster import LimCluster
from lbd.sim.faults.network import LATENCY_S

KINDS = (
    "loss", "twice", "delay", "partition", "one-way", "stop", "crash", "crash of the centre",
    "settings",
)  # fmt: skip
FAULTS = 10
BEGIN_S, LAST_S = 6.0, 50.0  # when the first and the last fault may start
LENGTH_S = (0.5, 20.0)
HEALED_S = LAST_S + 2.0  # longer faults end then
SLOW_S = (0.05, 1.5)  # often past a reply's deadline, and newer reports arrive before older ones
GAP_S = 0.8  # between commands, on average
WORK_S = 3.0
SLOTS = 2


@dataclass(frozen=True, slots=True)
class LimFault:
    at_s: float
    until_s: float
    kind: str
    hosts: tuple[HostId, ...]  # the hosts hit; one of the two for "one-way"
    amount: float = 0.0


def drawn(seed: int, names: Sequence[HostId], kinds: Sequence[str] = KINDS) -> list[LimFault]:
    """Returns faults ordered by start. Every kind comes up sooner or later, several overlap."""
    rng = Random(f"faults {seed}")
    faults = []
    for _ in range(FAULTS):
        at_s = rng.uniform(BEGIN_S, LAST_S)
        until_s = at_s + rng.uniform(*LENGTH_S)
        hosts = tuple(rng.sample(list(names), rng.randint(1, len(names) // 2)))
        fault = LimFault(at_s, until_s, rng.choice(kinds), hosts, rng.uniform(0.05, 0.5))
        faults.append(fault)
    return sorted(faults, key=lambda fault: fault.at_s)


class FaultRun:
    """Runs one algorithm under one schedule."""

    kinds: Sequence[str] = KINDS

    def __init__(
        self, algorithm: str, seed: int, hosts: int = 6, kind: type[LimCluster] = LimCluster
    ) -> None:
        self.params = LimConfig(algorithm=algorithm)
        self.cluster = kind(hosts, seed, self.params)
        self.names = list(self.cluster.names)
        self.schedule = drawn(seed, self.names, self.kinds)
        self.where = f"{algorithm}, seed {seed}"
        self.decided = 0
        self.moved = 0
        self.settled_s = 0.0  # how long after the last fault all hosts saw all others again
        self._rng = Random(f"commands {seed}")
        self._began_s = self.cluster.now_s
        self._tasks: dict[HostId, int] = dict.fromkeys(self.names, 0)
        self._foreign: dict[HostId, int] = dict.fromkeys(self.names, 0)
        self._down: set[HostId] = set()

    def run(self) -> None:
        """Runs until everything is healed. Raises AssertionError with algorithm and seed."""
        at = self.cluster.at
        for fault in self.schedule:
            at(fault.at_s, partial(self._begin, fault))
        at(BEGIN_S, self._next_command)
        at(HEALED_S, self._heal)
        self.cluster.run(HEALED_S + 0.001)

    # -- faults ----------------------------------------------------------------------------------

    def _begin(self, fault: LimFault) -> None:
        cluster, first = self.cluster, fault.hosts[0]
        end: Callable[[], None]
        match fault.kind:
            case "loss":
                cluster.loss = fault.amount
                end = partial(setattr, cluster, "loss", 0.0)
            case "twice":
                cluster.twice = fault.amount
                end = partial(setattr, cluster, "twice", 0.0)
            case "delay":
                cluster.latency_s = SLOW_S
                end = partial(setattr, cluster, "latency_s", LATENCY_S)
            case "partition":
                cluster.cut(*fault.hosts)
                end = cluster.heal
            case "one-way":
                ways = {(first, name) for name in self.names if name != first}
                cluster.mute |= ways
                end = partial(cluster.mute.difference_update, ways)
            case "stop":
                cluster.stop(first)
                end = partial(cluster.resume, first)
            case "settings":
                if first not in self._down:
                    self._change(first, fault.amount)
                return
            case _:
                victim = self._centre(first) if fault.kind.endswith("centre") else first
                self._crash(victim)
                end = partial(self._start, victim)
        cluster.at(fault.until_s - fault.at_s, end)

    def _change(self, name: HostId, amount: float) -> None:
        change = e.ChangeSettings(None, {"lim.min_gain": amount})
        self.cluster.handle(self.cluster[name], change)

    def _centre(self, by: HostId) -> HostId:
        return self.cluster[by].state.centre or by

    def _crash(self, name: HostId) -> None:
        if name not in self._down:
            self._down.add(name)
            self.cluster.crash(name)

    def _start(self, name: HostId) -> None:
        if name in self._down:
            self._down.discard(name)
            self.cluster.start(name)
            self._report_to_lim(name)

    def _heal(self) -> None:
        cluster = self.cluster
        cluster.heal()
        cluster.loss = cluster.twice = 0.0
        cluster.latency_s = LATENCY_S
        for name in self.names:
            cluster.resume(name)
            self._start(name)

    # -- commands --------------------------------------------------------------------------------

    def _next_command(self) -> None:
        now_s = self.cluster.now_s
        if now_s - self._began_s >= HEALED_S - 5.0:
            return
        self.cluster.at(self._rng.expovariate(1.0 / GAP_S), self._next_command)
        name = self._rng.choice(self.names)
        host = self.cluster[name]
        if host.running and not host.stopped:
            request = PlacementRequest(JobId(f"{name}-{now_s:.6f}"), may_wait=False)
            self.cluster.submit(name, request, partial(self._placed, name, request, now_s))

    def _placed(
        self, origin: HostId, request: PlacementRequest, asked_s: float, decision: Decision
    ) -> None:
        where = f"{self.where}: {request.job} at {self.cluster.now_s:.3f}"
        host = self.cluster[origin]
        assert not isinstance(decision, Nowhere), where
        if host.stopped_until_s < asked_s:
            took_s = self.cluster.now_s - asked_s
            assert took_s <= self.params.probe_timeout_s + 0.01, f"{where} took {took_s:.3f} s"
        self._check(decision, origin, where)
        self.decided += 1
        self.moved += decision.host != origin
        self._tasks[decision.host] += 1
        self._foreign[decision.host] += decision.host != origin
        self._report_to_lim(decision.host)
        work_s = self._rng.expovariate(1.0 / WORK_S)
        self.cluster.at(work_s, partial(self._ended, request.job, origin, decision.host))

    def _check(self, decision: Placement, origin: HostId, where: str) -> None:
        """Checks that the command was not sent to a host known to be unable to run it."""
        state = self.cluster[origin].state
        if decision.verdict is Verdict.HERE:
            assert decision.host == origin, where
            return
        assert decision.host != origin, where
        assert self.params.algorithm != "NOLB", where
        seen = state.table.view(state.centre, self.cluster.now_s).hosts
        assert decision.host in seen, where
        assert seen[decision.host].alive or self.params.algorithm == "CENTRAL", where

    def _ended(self, job: JobId, origin: HostId, host: HostId) -> None:
        self._tasks[host] -= 1
        self._foreign[host] -= host != origin
        self._report_to_lim(host)
        if self.cluster[origin].running:
            self.cluster.handle(self.cluster[origin], e.JobEnded(job))

    def _report_to_lim(self, name: HostId) -> None:
        host = self.cluster[name]
        host.queue = float(self._tasks[name])
        if host.running:
            status = e.LbmStatus(
                accepting=True,
                slots_total=SLOTS,
                slots_used=min(SLOTS, self._foreign[name]),
                jobs_local=self._tasks[name] - self._foreign[name],
                jobs_foreign=self._foreign[name],
            )
            self.cluster.handle(host, status)

    # -- once healed -----------------------------------------------------------------------------

    def converge(self) -> None:
        """Raises AssertionError unless the cluster fully recovers within a minute or so."""
        cluster, params = self.cluster, self.params
        self.settled_s = cluster.run_until(cluster.settled, 60, f"{self.where}: all see all")
        assert cluster.agreed_centre() == self.names[0], self.where
        cluster.run_until(self._same_settings, 30, f"{self.where}: the same settings everywhere")
        cluster.run_until(
            lambda: not any(self._tasks.values()), 60, f"{self.where}: all commands have ended"
        )
        cluster.run_until(
            lambda: all(host.state.table.charged_jobs() == 0 for host in cluster.alive()),
            params.down_after_s + 5, f"{self.where}: nobody is charged for what has ended",
        )  # fmt: skip
        busy = self.names[1]
        cluster.load(**{busy: 6.0})
        cluster.run(2 * params.keepalive_s + 4)
        for host in cluster.alive():
            sample = host.state.table.entries[busy].sample
            assert sample is not None, self.where
            assert abs(sample.vector.index - 3.0) < 0.2, f"{self.where}: {host.state.me} knows"
            assert not host.failure, self.where
        self._balances(busy)
        cluster.check_all()

    def _same_settings(self) -> bool:
        found = {host.state.settings.version for host in self.cluster.alive()}
        return len(found) == 1

    def _balances(self, busy: HostId) -> None:
        """Checks that a busy host's commands leave again; under NOLB none ever does."""
        expected = Verdict.HERE if self.params.algorithm == "NOLB" else Verdict.THERE
        for number in range(10):
            request = PlacementRequest(JobId(f"after-{number}"), may_wait=False)
            decision, _ = self.cluster.place(busy, request)
            assert isinstance(decision, Placement), self.where
            if decision.verdict is expected:
                return
            self.cluster.handle(self.cluster[busy], e.JobEnded(request.job))
            self.cluster.run(2.0)
        raise AssertionError(f"{self.where}: after all that, never {expected.value}")
