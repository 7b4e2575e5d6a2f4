"""The daemons' own LIM states with simulated messages: `lim.state` and the policies decide; here is
what `lim.daemon` does in a real host, in virtual time and at the thesis's costs.

A message takes CPU time at both ends, before any job; the network itself is not waited for. What
goes to everybody is sent once (the thesis's network broadcasts), though `messages` counts each.

What would change nothing is left out, or a simulated day would take one. A host's sampler is read
when its LIM has something to say; a host with no news has no tick; what was broadcast is kept once
for all (`shared_table`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from lbd.config import LimConfig, LoadConfig
from lbd.lim import events as e
from lbd.lim import messages as m
from lbd.lim.settings import InForce
from lbd.lim.state import Identity, LimState
from lbd.lim.table import Table
from lbd.load.index import load_index, smoothed
from lbd.model import HostId, JobId, Placement, PlacementRequest, Queues, Verdict
from lbd.policy.registry import POLICIES, WEIGH_AGE
from lbd.policy.view import Ask, Nowhere, Probe, Reply, Telling
from lbd.sim.balance_engine import Engine
from lbd.sim.balance_workload import Job
from lbd.sim.shared_table import SharedTable, board_of

CLUSTER = "sim"
SLOTS = 1_000_000  # the thesis knows none
AT_ONCE_S = 1e-9  # T of an index that shows a job as soon as it runs

Answered = Callable[[m.Body, float], None]


class Host:
    """One host's LIM."""

    __slots__ = ("index", "name", "number", "restless", "shown_at_s", "state")

    def __init__(self, number: int, state: LimState) -> None:
        self.number = number
        self.name = state.me
        self.state = state
        self.index = -1.0  # as last sampled, in tasks
        self.shown_at_s = 0.0
        self.restless = True  # it may have something to say at its next tick


class Lims:
    def __init__(self, engine: Engine, algorithm: str, seed: str) -> None:
        self.engine = engine
        self.lim = replace(engine.setup.lim, algorithm=algorithm)
        self.job_threshold_s = self.lim.job_threshold_s
        self._costs = engine.costs
        self._smoothing_s = engine.setup.smoothing_s
        self._of_queue = engine.setup.index != "utilisation"
        of_disks = engine.setup.index == "sum" and engine.disks
        self._io_weight = LoadConfig().io_weight if of_disks else 0.0
        self._telling = POLICIES[algorithm].telling
        self._ages = algorithm in WEIGH_AGE
        self._learnt_error = engine.setup.learnt_error
        self._learning = Random(f"{seed} learnt")
        dice = Random(f"{seed} {algorithm}")
        fade_s = self._smoothing_s or AT_ONCE_S
        self._board, self.hosts = make_hosts(engine, self.lim, fade_s, dice)
        self._by_name = {host.name: host for host in self.hosts}
        if self._telling is not Telling.NOBODY:
            for host in self.hosts:
                engine.at(dice.uniform(0, self.lim.exchange_period_s), self._tick, host)

    # -- jobs ------------------------------------------------------------------------------------

    def place(self, job: Job, now_s: float) -> None:
        host = self.hosts[job.origin]
        host.restless = True
        cpu_s = job.cpu_s
        if self._learnt_error:
            cpu_s *= self._learning.lognormvariate(0.0, self._learnt_error)
        request = PlacementRequest(JobId(str(job.number)), cpu_s=cpu_s, shown=False)
        self._next_step(host, job, request, (), now_s)

    def _next_step(
        self, host: Host, job: Job, request: PlacementRequest, replies: tuple[Reply, ...],
        now_s: float,
    ) -> None:  # fmt: skip
        self._look(host, now_s)
        table = host.state.table
        if isinstance(table, SharedTable):
            table.take_in(now_s)
        placer = host.state.placer
        step = placer.next_step(request, replies, now_s)
        if isinstance(step, Placement | Nowhere):
            decision = placer.settle(request, step, now_s, dry=False)
            assert isinstance(decision, Placement)
            self._carry_out(host, job, decision, now_s)
            return

        def go_on(reply: Reply, then_s: float) -> None:
            self._next_step(host, job, request, (*replies, reply), then_s)

        if isinstance(step, Ask):
            centre = step.centre
            question = placer.question(request, host.state.own_sample(now_s), dry=False)

            def told(body: m.Body, then_s: float) -> None:
                go_on(placer.answered(request, centre, body, then_s), then_s)

            self._ask(host, centre, question, now_s, told)
            return
        assert isinstance(step, Probe)
        (asked,) = step.hosts

        def probed(body: m.Body, then_s: float) -> None:
            go_on(placer.probed(asked, body, then_s), then_s)

        self._ask(host, asked, m.Probe(), now_s, probed)

    def _carry_out(self, host: Host, job: Job, decision: Placement, now_s: float) -> None:
        job.charged = True
        if decision.verdict is Verdict.THERE:
            self.engine.move(job, self._by_name[decision.host].number, now_s)
        else:
            self.engine.start(job, job.origin, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        host = self.hosts[job.origin]
        host.restless = True
        host.state.handle(e.JobEnded(JobId(str(job.number))), now_s)

    def departed(self, host: int) -> None:
        if self._telling is Telling.RESERVATIONS:
            self.hosts[host].state.reservations.departed()

    # -- what a LIM knows ------------------------------------------------------------------------

    def _look(self, host: Host, now_s: float) -> None:
        """Read the sampler."""
        cpu = self.engine.cpus[host.number]
        tasks = self._smoothed(host, now_s) if self._smoothing_s else self._now(host.number)
        if tasks != host.index or self._ages:
            host.index = tasks
            # what waits for disks is in the sum already, each as `load.io_weight` has it
            queues = Queues(cpu=tasks)
            index = load_index(queues, cpu.cores, cpu.speed, 0.0, 0.0)
            host.state.handle(e.Sampled(queues, index, min(1.0, tasks / cpu.cores)), now_s)

    def _now(self, host: int) -> float:
        tasks = float(len(self.engine.cpus[host]))
        if self._io_weight:
            tasks += self._io_weight * len(self.engine.disks[host])
        return tasks

    def _smoothed(self, host: Host, now_s: float) -> float:
        """Of the mean since the last look, as the sampler smooths those of each second. Of the
        utilisation too: as many tasks as would keep that share of the cores busy."""
        passed_s = now_s - host.shown_at_s
        if passed_s <= 0:
            return max(0.0, host.index)
        cpu = self.engine.cpus[host.number]
        tasks, busy = cpu.means(now_s, passed_s)
        mean = tasks if self._of_queue else busy * cpu.cores
        if self._io_weight:
            mean += self._io_weight * self.engine.disks[host.number].mean(now_s, passed_s)
        host.shown_at_s = now_s
        return smoothed(max(0.0, host.index), mean, passed_s, self._smoothing_s)

    def _hear(self, host: Host, sender: HostId, body: m.Body, now_s: float) -> list[e.Action]:
        return host.state.handle(e.Received(m.Message(CLUSTER, sender, 1, body)), now_s)

    # -- messages --------------------------------------------------------------------------------

    def _tick(self, host: Host, now_s: float) -> None:
        engine = self.engine
        if now_s >= engine.setup.duration_s:
            return  # no job comes any more
        engine.at(now_s + self.lim.exchange_period_s, self._tick, host)
        central = host.state.centre == host.name or self._telling is Telling.RESERVATIONS
        if not central and not host.restless and self._now(host.number) == host.index:
            return
        self._look(host, now_s)
        self._send(host, host.state.handle(e.Tick(), now_s), now_s)
        host.restless = bool(self._smoothing_s) or host.state.table.charged_jobs() > 0

    def _send(self, host: Host, actions: Sequence[e.Action], now_s: float) -> None:
        """What is one body for several hosts is broadcast."""
        last: m.Body | None = None
        to: list[Host] = []
        for action in actions:
            if not isinstance(action, e.Send):
                continue
            if action.body is not last:
                self._broadcast(host, to, last, now_s)
                last, to = action.body, []
            to.append(self._by_name[action.to])
        self._broadcast(host, to, last, now_s)

    def _broadcast(self, host: Host, to: list[Host], body: m.Body | None, now_s: float) -> None:
        if body is None:
            return
        if isinstance(body, m.Reserve):
            for other in to:
                self._ask(host, other.name, body, now_s, self._reserving(host, other.name, body))
            return
        self.engine.messages += len(to)
        sent_s = self.engine.overhead(host.number, self._costs.send_s, now_s)
        self.engine.at(sent_s, self._deliver, (host, to, body))

    def _deliver(self, what: tuple[Host, list[Host], m.Body], now_s: float) -> None:
        sender, to, body = what
        receive_s, overhead = self._costs.receive_s, self.engine.overhead
        for host in to:
            overhead(host.number, receive_s, now_s)
        if isinstance(body, m.Vector):
            for sample in body.samples:
                self._board.record(sample, now_s)
        elif isinstance(body, m.Report) and self._telling is Telling.EVERYBODY:
            self._board.record(body.sample, now_s)
        else:
            for host in to:
                self._hear(host, sender.name, body, now_s)

    def _reserving(self, host: Host, name: HostId, sent: m.Body) -> Answered:
        def replied(reply: m.Body, now_s: float) -> None:
            message = m.Message(CLUSTER, name, 1, reply)
            host.state.handle(e.Replied(name, sent, message), now_s)

        return replied

    # -- questions -------------------------------------------------------------------------------

    def _ask(self, host: Host, to: HostId, body: m.Body, now_s: float, answered: Answered) -> None:
        engine, costs = self.engine, self._costs
        other = self._by_name[to]
        engine.messages += 2

        def arrive(_: object, at_s: float) -> None:
            engine.at(engine.overhead(other.number, costs.receive_s, at_s), answer, None)

        def answer(_: object, at_s: float) -> None:
            self._look(other, at_s)
            other.restless = True
            actions = self._hear(other, host.name, body, at_s)
            (reply,) = [action.body for action in actions if isinstance(action, e.Reply)]
            engine.at(engine.overhead(other.number, costs.send_s, at_s), back, reply)

        def back(reply: m.Body, at_s: float) -> None:
            engine.at(engine.overhead(host.number, costs.receive_s, at_s), answered, reply)

        engine.at(engine.overhead(host.number, costs.send_s, now_s), arrive, None)


def make_hosts(
    engine: Engine, lim: LimConfig, fade_s: float, dice: Random
) -> tuple[Table, list[Host]]:
    """Every LIM, knowing every other and that it is idle; and the board with what all know.

    The centre has a table of its own, as it is the first to know what is then broadcast.
    """
    names = [HostId(f"h{number + 1}") for number in range(engine.setup.hosts)]
    members = [
        m.Member(name, f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", 7901, 7902, n, 1)
        for n, name in enumerate(names)
    ]
    base = InForce(lim, LoadConfig())
    board = board_of(members, lim, fade_s)
    tells_centre = POLICIES[lim.algorithm].telling in (Telling.VECTOR, Telling.CENTRE)
    hosts = []
    for number, member in enumerate(members):
        cores, speed = engine.setup.power(number)
        is_centre = number == 0 and tells_centre
        others = members[1:] if is_centre else []
        table = None if is_centre else SharedTable(member, lim, fade_s, board)
        identity = Identity(CLUSTER, member, others, "", cores, speed, drained=False)
        state = LimState(identity, base, Random(dice.getrandbits(64)), 0.0, table)
        state.table.smoothing_s = fade_s
        state.handle(e.LbmStatus(accepting=True, slots_total=SLOTS), 0.0)
        hosts.append(Host(number, state))
    for host in hosts:
        sample = host.state.own_sample(0.0)
        board.record(sample, 0.0)
        if tells_centre and host is not hosts[0]:
            hosts[0].state.table.record(sample, 0.0)
    return board, hosts
