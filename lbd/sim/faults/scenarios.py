"""The faults of a simulated cluster: a table of scenarios, and a run of one of them.

A scenario is a choice of faults. When they start, how long they last and which hosts they hit is
drawn from the seed; several overlap. Then everything is healed, users stop, and everything must
end.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from lbd.config.dispatch import Strategy
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import FREE
from lbd.model import HostId
from lbd.sim.faults.cluster import LEASE_S, SETTINGS, WORK_S, Cluster
from lbd.sim.faults.network import LATENCY_S
from lbd.sim.faults.promises import BrokenPromise
from lbd.sim.faults.queue_lines import DISPATCHER

HOLDING: tuple[Strategy, ...] = ("pred", "bias", "heur")
FAULTS = 12
# Hosts whose commands outlive a killed LBM for a while.
SLOW_TO_END = replace(SETTINGS, stubborn=0.7, keeper_grace_s=5.0)
BEGIN_S, HEALED_S = 5.0, 40.0
LENGTH_S = (0.2, 2.0 * LEASE_S)  # some outlive a lease
AWAY_S = (0.1, 3.0)  # until a daemon's successor starts
END_S = 240.0  # after which everything must have ended, if it takes the usual time
CLOCK_S = 86_400.0  # how wrong people set clocks
SHOWN_EVENTS = 15

NETWORK = ("cut", "one way cut", "loss", "doubled", "slow")
HOSTS = ("LBM killed", "LBM restarted", "LBM paused", "keeper killed", "keeper paused", "power cut")
QUEUE = ("dispatcher killed", "dispatcher paused", "disk full")
LIMS = ("LIM killed", "LIM paused")
# jobs that wait for others, while these end, fail, are killed or lost
DEPENDENCIES = "dependencies"
OWNERS_GANGS = "owners-gangs"  # gangs that are moved as a whole
NEEDS = "needs"  # jobs and commands that need GPUs, of which each host has two
GANGS_NEEDS = "gangs-needs"  # the same, and some start together
CRASHES = "needs-crashes"  # as `needs`, and LBMs that return before everything has ended
TARGETS = "targets"  # arrays with targets, and a dispatcher that is killed while they run
PAPERS = "papers"  # these, gangs, malleable jobs and owners, all at once
LEASES = "leases"  # dispatch.lease_s is raised and lowered while jobs run
LEASE_CHANGED = "dispatch.lease_s changed"  # and its dispatcher starts again under the new one
AT_A_LOWERING = "host cut off as dispatch.lease_s is lowered"
SHORT_S, LONG_S, RAISED_S = 0.5 * LEASE_S, 4.0 * LEASE_S, 2.0
AT_A_GRANT = "LBM killed where a GPU is used"  # and it returns a moment later
AT_A_START = "dispatcher killed at a gang's start"
AT_A_GANG = "owner back where a gang runs"
BEGINS_NOTHING = "host that begins nothing"  # it takes attempts, and refuses gangs for now
HOARDERS = "hoarders"  # such hosts, and gangs
HOARDED_S = 60.0  # for so long: more than they may keep what they do not begin
LOOK_S = 0.02  # pause between looks for one of these situations
SCENARIOS: Mapping[str, tuple[str, ...]] = {
    "calm": (),
    "network": NETWORK,
    "lbm-killed": ("LBM killed",),
    "lbm-restarted": ("LBM restarted",),
    "lbm-paused": ("LBM paused",),
    "keeper": ("keeper killed", "keeper paused"),
    "power-cut": ("power cut",),
    "dispatcher": ("dispatcher killed", "dispatcher paused"),
    "disk-full": ("disk full", "dispatcher killed"),
    "lims": LIMS,
    "clocks": ("clock step",),
    "malleable": ("dispatcher killed", "dispatcher paused", "LBM killed", "power cut"),
    "gangs": ("dispatcher killed", "LBM restarted", "power cut", "cut", "dispatcher paused"),
    "owners": ("owner back", "LBM restarted"),
    "owners-queue": ("owner back", "dispatcher killed"),
    OWNERS_GANGS: (AT_A_GANG, AT_A_GANG, AT_A_GANG, "dispatcher killed", "LBM restarted"),
    TARGETS: ("dispatcher killed", "dispatcher paused", "LBM killed", "power cut", "disk full"),
    LEASES: (
        LEASE_CHANGED,
        *(AT_A_LOWERING,) * 3,
        "dispatcher killed",
        "dispatcher paused",
        "LBM paused",
        "LBM restarted",
        "keeper paused",
        "cut",
    ),
    DEPENDENCIES: (
        "dispatcher killed",
        "dispatcher paused",
        "LBM killed",
        "power cut",
        "disk full",
    ),
    NEEDS: (
        "dispatcher killed",
        "LBM killed",
        "LBM restarted",
        "keeper killed",
        "power cut",
        "cut",
        "owner back",
    ),
    GANGS_NEEDS: (AT_A_START, "dispatcher killed", "LBM killed", "LBM restarted", "power cut"),
    CRASHES: (AT_A_GRANT,),
    HOARDERS: (*(BEGINS_NOTHING,) * 3, "dispatcher paused", "LBM restarted", "cut"),
    PAPERS: (
        AT_A_START,
        "dispatcher killed",
        "dispatcher paused",
        "owner back",
        "LBM killed",
        "LBM restarted",
        "power cut",
    ),
    "everything": (*NETWORK, *HOSTS, *QUEUE, *LIMS, "clock step", "owner back"),
}
# Each dispatcher that starts waits for leases once more, so many starts would hide a fault.
FEWER = {LEASES: 5}


@dataclass(frozen=True, slots=True)
class Fault:
    at_s: float
    length_s: float
    kind: str
    host: HostId
    amount: float


def drawn(scenario: str, seed: int, names: list[HostId]) -> list[Fault]:
    kinds, rng = SCENARIOS[scenario], Random(f"{scenario} {seed}")
    found = [
        Fault(
            rng.uniform(BEGIN_S, HEALED_S - 2.0), rng.uniform(*LENGTH_S), rng.choice(kinds),
            rng.choice(names), rng.uniform(0.05, 0.5),
        )
        for _ in range(FEWER.get(scenario, FAULTS) if kinds else 0)
    ]  # fmt: skip
    return sorted(found, key=lambda fault: fault.at_s)


class ClusterRun:
    """Runs one scenario from one seed."""

    def __init__(self, scenario: str, seed: int, hosts: int = 4) -> None:
        self.scenario, self.seed = scenario, seed
        malleable = FREE
        if scenario in ("malleable", PAPERS):  # the strategies that may wait, in turn
            malleable = Rule(HOLDING[seed % len(HOLDING)], lock_in=seed % 2 == 1)
        gangs = scenario in ("gangs", OWNERS_GANGS, GANGS_NEEDS, HOARDERS, PAPERS) or (
            scenario == "everything" and seed % 2 == 1
        )
        self.cluster = Cluster(
            seed, hosts, users_s=HEALED_S, malleable=malleable,
            targets=scenario in (TARGETS, PAPERS), gangs=gangs,
            dependencies=scenario == DEPENDENCIES,
            needs=scenario in (NEEDS, GANGS_NEEDS, CRASHES),
            settings=SLOW_TO_END if scenario == CRASHES else SETTINGS,
            work_s=LEASE_S if scenario == LEASES else WORK_S,
        )  # fmt: skip
        # dispatchers killed while one of their gangs was held and not released
        self.killed_at_starts = 0
        self._down: set[HostId] = set()  # hosts whose LBM is not running
        for fault in drawn(scenario, seed, self.cluster.names):
            self.cluster.at(fault.at_s, partial(self._begin, fault))
        self.cluster.at(HEALED_S, self._heal)

    def run(self) -> None:
        """Raises BrokenPromise with all that is needed to repeat the run."""
        try:
            self.cluster.run(HEALED_S + 0.001)
            self.cluster.finish(END_S * self.cluster.work_s / WORK_S)
        except AssertionError as problem:
            last = "\n".join(list(self.cluster.events)[-SHOWN_EVENTS:])
            raise BrokenPromise(
                f"scenario {self.scenario}, seed {self.seed}, after {self.cluster.now_s:.3f} s:"
                f" {problem}\nwhat happened last:\n{last}"
            ) from problem

    # Faults

    def _begin(self, fault: Fault) -> None:
        cluster, host = self.cluster, fault.host
        cluster.log(f"{fault.kind} ({host}, {fault.length_s:.1f} s)")
        if fault.kind in NETWORK:
            return self._spoil_network(fault)
        away_s = min(fault.length_s, AWAY_S[1])
        match fault.kind:
            case "LBM killed" | "LBM restarted" | "LBM paused" | "power cut":
                self._stop_lbm(fault)
            case "keeper killed":
                cluster.hosts[host].lose_keeper()
            case "keeper paused":
                keeper = cluster.hosts[host].keeper
                keeper.pause()
                cluster.at(fault.length_s, keeper.go_on)
            case "dispatcher killed":
                cluster.queue.kill()
                cluster.at(away_s, self._start_dispatcher)
            case "dispatch.lease_s changed":
                self._change_lease(fault.amount)
            case "host cut off as dispatch.lease_s is lowered":
                self._cut_off_at_a_lowering(fault)
            case "dispatcher killed at a gang's start":
                self._kill_at_a_start(cluster.now_s + LENGTH_S[1], away_s)
            case "dispatcher paused":
                cluster.queue.is_paused = True
                cluster.at(fault.length_s, partial(setattr, cluster.queue, "is_paused", False))
            case "disk full":
                ledger = cluster.queue.dispatcher.ledger
                ledger.is_full = True
                cluster.at(fault.length_s, partial(setattr, ledger, "is_full", False))
            case "LIM killed":
                cluster.lims.crash(host)
                cluster.at(away_s, partial(self._start_lim, host))
            case "LIM paused":
                cluster.lims.stop(host)
                cluster.at(fault.length_s, partial(cluster.lims.resume, host))
            case "clock step":
                cluster.step_clock((fault.amount - 0.25) * CLOCK_S)
            case "LBM killed where a GPU is used":
                self._kill_at_a_grant(fault, cluster.now_s + LENGTH_S[1])
            case "owner back where a gang runs":
                self._come_back_at_a_gang(cluster.now_s + LENGTH_S[1], fault.length_s)
            case "host that begins nothing":
                cluster.hosts[host].begins_nothing = True
                cluster.at(HOARDED_S, cluster.hosts[host].is_honest_again)
            case "owner back":
                cluster.owners.comes(host)
                cluster.at(fault.length_s, partial(cluster.owners.goes, host))

    def _spoil_network(self, fault: Fault) -> None:
        net, host = self.cluster.lims, fault.host
        everybody = {*self.cluster.names, DISPATCHER}
        end: Callable[[], None]
        match fault.kind:
            case "cut":
                net.cut_between({host}, everybody - {host})
                end = net.heal
            case "one way cut":
                ways = {(host, other) for other in everybody}
                net.mute |= ways
                end = partial(net.mute.difference_update, ways)
            case "loss":
                net.loss = fault.amount
                end = partial(setattr, net, "loss", 0.0)
            case "doubled":
                net.twice = fault.amount
                end = partial(setattr, net, "twice", 0.0)
            case _:
                net.latency_s = 0.05, 1.0
                end = partial(setattr, net, "latency_s", LATENCY_S)
        self.cluster.at(fault.length_s, end)

    def _stop_lbm(self, fault: Fault) -> None:
        cluster, name = self.cluster, fault.host
        host = cluster.hosts[name]
        if name in self._down:
            return  # it is already down
        self._down.add(name)
        back: Callable[[HostId], None]
        if fault.kind == "LBM restarted":
            host.pause()
            back, away_s = cluster.resume_lbm, min(fault.length_s, AWAY_S[1])
        elif fault.kind == "LBM paused":
            host.pause()
            back, away_s = cluster.continue_lbm, fault.length_s
        else:
            cluster.lose_lbm(name)
            back, away_s = cluster.start_lbm, fault.length_s
            if fault.kind == AT_A_GRANT:
                away_s = fault.amount
        if fault.kind == "power cut":
            host.keeper.end_all()
            cluster.lose_callers(name)
            cluster.lims.crash(name)
            cluster.at(away_s, partial(self._start_lim, name))
        cluster.at(away_s, partial(self._lbm_is_back, name, back))

    def _lbm_is_back(self, name: HostId, back: Callable[[HostId], None]) -> None:
        self._down.discard(name)
        self.cluster.log(f"the LBM of {name} is back")
        back(name)

    def _kill_at_a_start(self, until_s: float, away_s: float) -> None:
        """Kills the dispatcher as soon as a gang is on its way to its hosts, or held there."""
        cluster, life = self.cluster, self.cluster.queue.dispatcher.life
        gangs = [life.gangs.of(live.job) for live in life.leased.values()]
        if cluster.queue.is_up and any(gang and not gang.released for gang in gangs):
            cluster.log("the dispatcher is killed in the midst of a gang's start")
            self.killed_at_starts += 1
            cluster.queue.kill()
            cluster.at(away_s, self._start_dispatcher)
        elif cluster.now_s < until_s:
            cluster.at(LOOK_S, partial(self._kill_at_a_start, until_s, away_s))

    def _kill_at_a_grant(self, fault: Fault, until_s: float) -> None:
        cluster = self.cluster
        for name, host in cluster.hosts.items():
            if name not in self._down and any(map(host.grants.get, host.keeper.alive)):
                return self._stop_lbm(replace(fault, host=name))
        if cluster.now_s < until_s:
            cluster.at(LOOK_S, partial(self._kill_at_a_grant, fault, until_s))

    def _come_back_at_a_gang(self, until_s: float, length_s: float) -> None:
        """Brings an owner back as soon as a whole gang runs."""
        cluster, life = self.cluster, self.cluster.queue.dispatcher.life
        for live in life.leased.values() if cluster.queue.is_up else ():
            gang = life.gangs.of(live.job)
            if gang and gang.is_whole and gang.released and live.lease and live.lease.begun:
                cluster.owners.comes(live.lease.host)
                cluster.at(length_s, partial(cluster.owners.goes, live.lease.host))
                return
        if cluster.now_s < until_s:
            cluster.at(LOOK_S, partial(self._come_back_at_a_gang, until_s, length_s))

    def _change_lease(self, amount: float) -> None:
        """Raises the lease, or lowers it if it was raised."""
        was_raised = self.cluster.queue.dispatcher.terms.lease_s > LEASE_S
        self._set_lease(SHORT_S + amount * LEASE_S if was_raised else LONG_S - amount * LEASE_S)

    def _set_lease(self, lease_s: float) -> None:
        """The dispatcher starts again under the new lease."""
        queue = self.cluster.queue
        queue.dispatcher.terms = replace(queue.dispatcher.terms, lease_s=lease_s)
        self.cluster.log(f"dispatch.lease_s is {lease_s:.1f}")
        if queue.is_up:
            queue.start()

    def _cut_off_at_a_lowering(self, fault: Fault) -> None:
        """Raises the lease, and lowers it again just before or after a host is cut off."""
        cluster, after_s = self.cluster, RAISED_S * (0.75 + fault.amount)
        self._set_lease(LONG_S)
        cluster.at(RAISED_S, partial(self._set_lease, SHORT_S + fault.amount * LEASE_S))
        cluster.at(after_s, partial(self._cut_off_a_runner, fault))

    def _cut_off_a_runner(self, fault: Fault) -> None:
        """Cuts off a host with a running attempt, if there is one."""
        leases = [live.lease for live in self.cluster.queue.dispatcher.life.leased.values()]
        host = next((one.host for one in leases if one and one.begun), fault.host)
        self._spoil_network(replace(fault, kind="cut", host=host, length_s=LONG_S))

    def _start_dispatcher(self) -> None:
        if not self.cluster.queue.is_up:
            self.cluster.log("a new dispatcher begins")
            self.cluster.queue.start()

    def _start_lim(self, name: HostId) -> None:
        if not self.cluster.lims.hosts[name].running:
            self.cluster.lims.start(name)

    def _heal(self) -> None:
        """Heals faults; what is stopped continues when its time has come."""
        cluster = self.cluster
        net = cluster.lims
        net.heal()
        net.mute.clear()
        net.loss = net.twice = 0.0
        net.latency_s = LATENCY_S
        cluster.owners.all_go()
        cluster.queue.dispatcher.ledger.is_full = False
        cluster.log("all is whole again")
