"""The daemons' own LIM states with simulated messages. lbd/lim/core and the policies decide; this
file does what lbd/lim/daemon.py does on a real host, in virtual time and at the thesis's costs.

A message takes CPU time at both ends, before any job; the network itself takes no time. A broadcast
is sent once (the thesis's network broadcasts), although `messages` counts each receiver. A host
with as many messages in flight as the daemon allows is silent until one has been received. So the
centre of more hosts than it can hear (300 at the thesis's costs) knows less, instead of falling
further and further behind.

Whatever would change nothing is left out, because a simulated day would otherwise take a real one.
A host's sampler is read only when its LIM has something to send; a host without news has no tick,
except for keep-alives; a broadcast is stored once for all hosts (`shared_table.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from lbd.config.schema import LimConfig, LoadConfig
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import IN_FLIGHT_MAX
from lbd.lim.core.settings import InForce
from lbd.lim.core.state import Identity, LimState
from lbd.load.index import load_index, smoothed
from lbd.model import HostId, JobId, Placement, PlacementRequest, Queues, Verdict
from lbd.policy.registry import POLICIES, WEIGH_AGE
from lbd.policy.view import Ask, Probe, Reply, Reporting
from lbd.sim.balance.engine import Cpu, Engine, Process
from lbd.sim.balance.shared_table import Board, SharedTable
from lbd.sim.balance.workload import Job

CLUSTER = "sim"
SLOTS = 1_000_000  # the thesis has no limit
AT_ONCE_S = 1e-9  # T of an index that shows a job as soon as it runs

TICK = e.Tick()
NOT_YET = e.Sampled(Queues(), 0.0, 0.0)
PROBE = m.Probe()
# With these, the end of a job is reported to the centre, or is a chance to ask for another job.
OF_ENDS = (Reporting.CENTRE, Reporting.RESERVATIONS)


@lru_cache(maxsize=4096)
def sampled(tasks: float, cores: float, speed: float) -> e.Sampled:
    """Returns a sampler's result. Cached, because unsmoothed values are a few numbers."""
    # tasks that wait for disks are already in the sum, weighted by `load.io_weight`
    queues = Queues(cpu=tasks)
    index = load_index(queues, cores, speed, 0.0, 0.0)
    return e.Sampled(queues, index, min(1.0, tasks / cores))


class Node:
    """One host with its LIM."""

    __slots__ = (
        "cpu", "index", "name", "number", "period_s", "restless", "sampled", "shown_at_s", "state",
        "taken_at_s", "unsent",
    )  # fmt: skip

    def __init__(self, number: int, state: LimState, cpu: Cpu) -> None:
        self.number = number
        self.name = state.me
        self.state = state
        self.cpu = cpu
        self.period_s = state.in_force.lim.exchange_period_s
        self.index = -1.0  # as last sampled, in tasks
        self.sampled = NOT_YET
        self.shown_at_s = 0.0
        self.restless = True  # whether it may have something to report at its next tick
        self.unsent = 0  # own messages that still wait for the CPU
        # for messages sent: when the last receiver has taken each
        self.taken_at_s: list[float] = []

    def has_too_many_in_flight(self, now_s: float) -> bool:
        if self.unsent + len(self.taken_at_s) < IN_FLIGHT_MAX:
            return False
        self.taken_at_s = [at_s for at_s in self.taken_at_s if at_s > now_s]
        return self.unsent + len(self.taken_at_s) >= IN_FLIGHT_MAX


@dataclass(slots=True)
class Command:
    """A job for which a host is being chosen."""

    job: Job
    host: Node  # where it was submitted
    request: PlacementRequest
    replies: tuple[Reply, ...] = ()


@dataclass(slots=True)
class Question:
    """A question on its way to a host, or the answer on its way back."""

    asker: Node
    asked: Node
    body: m.Body
    command: Command | None  # None: for a reservation


class Lims:
    def __init__(self, engine: Engine, algorithm: str, seed: str) -> None:
        self.engine = engine
        self.lim = replace(engine.setup.lim, algorithm=algorithm)
        self.job_threshold_s = self.lim.job_threshold_s
        self._costs = engine.costs
        self._until_s = engine.setup.duration_s
        self._smoothing_s = engine.setup.smoothing_s
        self._window_s = engine.setup.window_s
        self._of_queue = engine.setup.index != "utilisation"
        of_disks = engine.setup.index == "sum" and engine.disks
        self._io_weight = LoadConfig().io_weight if of_disks else 0.0
        self._reporting = POLICIES[algorithm].reporting
        self._reserving = self._reporting is Reporting.RESERVATIONS
        self._nobody_down = self.lim.down_after_s >= self._until_s  # because of missing news
        self._owes_keepalives = self._reserving or self.lim.keepalive_s < self._until_s
        self._to_everybody = self._reporting is Reporting.EVERYBODY
        self._ages = algorithm in WEIGH_AGE
        self._learnt_error = engine.setup.learnt_error
        self._learning = Random(f"{seed} learnt")
        rng = Random(f"{seed} {algorithm}")
        fade_s = max(self._smoothing_s, self._window_s / 2) or AT_ONCE_S
        self._fade_s = fade_s
        self._board, self.hosts = make_hosts(engine, self.lim, fade_s, rng)
        self._by_name = {host.name: host for host in self.hosts}
        if self._reporting is not Reporting.NOBODY:
            for host in self.hosts:
                engine.at(rng.uniform(0, self.lim.exchange_period_s), self._tick, host)
        if self._window_s:
            for host in self.hosts:
                engine.at(rng.uniform(0, self._window_s), self._close_window, host)

    # -- jobs ------------------------------------------------------------------------------------

    def place(self, job: Job, now_s: float) -> None:
        host = self.hosts[job.origin]
        host.restless |= self._reserving  # its own load includes charges
        cpu_s = job.cpu_s
        if self._learnt_error:
            cpu_s *= self._learning.lognormvariate(0.0, self._learnt_error)
        request = PlacementRequest(JobId(str(job.number)), cpu_s=cpu_s, shown=False)
        self._next_step(Command(job, host, request), now_s)

    def _next_step(self, command: Command, now_s: float) -> None:
        host, request = command.host, command.request
        self._look(host, now_s, to_report=False)
        state = host.state
        table, placer = state.table, state.placer
        if isinstance(table, SharedTable):
            table.take_in(now_s)
        step = placer.next_step(request, command.replies, now_s)
        if isinstance(step, Probe):
            (asked,) = step.hosts
            self._ask(Question(host, self._by_name[asked], PROBE, command), now_s)
        elif isinstance(step, Ask):
            body = placer.question(request, state.own_sample(now_s), dry=False)
            self._ask(Question(host, self._by_name[step.centre], body, command), now_s)
        else:
            decision = placer.settle(request, step, now_s, dry=False)
            assert isinstance(decision, Placement)
            self._carry_out(command.job, decision, now_s)

    def _carry_out(self, job: Job, decision: Placement, now_s: float) -> None:
        job.charged = True
        if decision.verdict is Verdict.THERE:
            self.engine.move(job, self._by_name[decision.host].number, now_s)
        else:
            self.engine.start(job, job.origin, now_s)

    def ended(self, job: Job, now_s: float) -> None:
        host = self.hosts[job.origin]
        host.restless |= self._reporting in OF_ENDS
        host.state.handle(e.JobEnded(JobId(str(job.number))), now_s)

    def departed(self, host: int) -> None:
        if self._reserving:
            self.hosts[host].state.reservations.departed()
            self.hosts[host].restless = True

    # -- what a LIM knows ------------------------------------------------------------------------

    def _look(self, host: Node, now_s: float, to_report: bool = True) -> None:
        """Reads the sampler, unless it reports by itself."""
        if not self._window_s:
            tasks = self._smoothed(host, now_s) if self._smoothing_s else self._now(host)
            self._show(host, tasks, now_s, to_report)

    def _close_window(self, host: Node, now_s: float) -> float | None:
        self._show(host, self._smoothed(host, now_s), now_s)
        host.restless = True
        return now_s + self._window_s if now_s < self._until_s else None

    def _show(self, host: Node, tasks: float, now_s: float, to_report: bool = True) -> None:
        """Passes the load to the LIM. Where ages count, an unchanged load is passed too: for
        reports, for the host's own charges, and to show that a core is still free."""
        if tasks != host.index:
            host.restless = True
            host.index = tasks
            host.sampled = sampled(tasks, host.cpu.cores, host.cpu.speed)
        elif not self._ages or not (to_report or self._renews(host, tasks)):
            return
        host.state.handle(host.sampled, now_s)

    def _renews(self, host: Node, tasks: float) -> bool:
        """Returns whether an unchanged load changes the host's own table."""
        return tasks < host.cpu.cores or host.state.table.charges(host.name) > 0

    def _now(self, host: Node) -> float:
        tasks = float(len(host.cpu))
        if self._io_weight:
            tasks += self._io_weight * len(self.engine.disks[host.number])
        return tasks

    def _smoothed(self, host: Node, now_s: float) -> float:
        """Smooths the mean since the last call, as the sampler smooths the means of seconds.
        Expresses utilisation as the number of tasks that would keep that share of the cores busy.
        """
        passed_s = now_s - host.shown_at_s
        if passed_s <= 0:
            return max(0.0, host.index)
        cpu = host.cpu
        tasks, busy = cpu.means(now_s, passed_s)
        mean = tasks if self._of_queue else busy * cpu.cores
        if self._io_weight:
            mean += self._io_weight * self.engine.disks[host.number].mean(now_s, passed_s)
        host.shown_at_s = now_s
        return smoothed(max(0.0, host.index), mean, passed_s, self._smoothing_s)

    def _hear(self, host: Node, sender: HostId, body: m.Body, now_s: float) -> list[e.Action]:
        actions = host.state.handle(e.Received(m.Message(CLUSTER, sender, 1, body)), now_s)
        if isinstance(body, m.Settings):
            self._configured(host)
        return actions

    def _configured(self, host: Node) -> None:
        """Takes over changes of `lim.adaptive`, which does not know the simulator's load index."""
        host.period_s = host.state.in_force.lim.exchange_period_s
        host.state.table.smoothing_s = self._fade_s

    # -- messages --------------------------------------------------------------------------------

    def _tick(self, host: Node, now_s: float) -> float | None:
        if now_s >= self._until_s:
            return None  # no more jobs arrive
        again_s = now_s + host.period_s
        quiet = not host.restless and self._now(host) == host.index
        if not quiet or self._speaks_anyway(host, now_s):
            self._speak(host, now_s)
        return again_s

    def _speak(self, host: Node, now_s: float) -> None:
        if host.has_too_many_in_flight(now_s):
            return  # the receivers or its own CPU cannot keep up: it reports later
        self._look(host, now_s)
        host.restless = bool(self._smoothing_s)
        state = host.state
        waits = self._reserving and state.reservations.wait()
        if waits and not self._speaks_anyway(host, now_s):
            return
        said = state.handle(TICK, now_s)
        self._send(host, said, now_s)
        host.restless |= self._reserving and bool(said)  # it asks again until it gets an answer

    def _speaks_anyway(self, host: Node, now_s: float) -> bool:
        """Returns whether it must send without news."""
        state = host.state
        if state.placer.centre == host.name or (self._reserving and not self._nobody_down):
            return True
        return self._owes_keepalives and state.owes_keepalive(now_s)

    def _send(self, host: Node, actions: Sequence[e.Action], now_s: float) -> None:
        for action in actions:
            if isinstance(action, e.Broadcast):
                self._deliver_body(host, action.to, action.body, now_s)
            elif isinstance(action, e.Send):
                if isinstance(action.body, m.Reserve):
                    asked = self._by_name[action.to]
                    self._ask(Question(host, asked, action.body, None), now_s)
                else:
                    self._deliver_body(host, (action.to,), action.body, now_s)
            elif isinstance(action, e.Configure):
                self._configured(host)

    def _deliver_body(self, host: Node, to: tuple[HostId, ...], body: m.Body, now_s: float) -> None:
        host.unsent += 1
        self.engine.messages += len(to)
        sent_s = host.cpu.overhead(self._costs.send_s, now_s)
        self.engine.at(sent_s, self._deliver, (host, to, body))

    def _deliver(self, what: tuple[Node, tuple[HostId, ...], m.Body], now_s: float) -> None:
        sender, to, body = what
        hosts, receive_s = self._by_name, self._costs.receive_s
        taken_s = max([hosts[name].cpu.overhead(receive_s, now_s) for name in to])
        sender.unsent -= 1
        sender.taken_at_s.append(taken_s)
        if self._reserving and not isinstance(body, m.Unreserve):  # they know other loads now
            for name in to:
                hosts[name].restless = True
        if isinstance(body, m.Delta):
            known = self._board.take(m.Message(CLUSTER, sender.name, 1, body), body, now_s)
            for name in to:  # free, as the thesis's broadcasts are not acknowledged
                sender.state.acknowledged(name, 1, known, now_s)
        elif self._to_everybody and isinstance(body, m.Report):
            self._board.record(body.sample, now_s)
        else:
            for name in to:
                self._hear(hosts[name], sender.name, body, now_s)

    # -- questions -------------------------------------------------------------------------------

    def _ask(self, question: Question, now_s: float) -> None:
        self.engine.follow(self._asking(question, now_s))

    def _asking(self, question: Question, now_s: float) -> Process:
        asker, asked = question.asker.cpu, question.asked.cpu
        send_s, receive_s = self._costs.send_s, self._costs.receive_s
        self.engine.messages += 2
        now_s = yield asker.overhead(send_s, now_s)
        now_s = yield asked.overhead(receive_s, now_s)
        reply = self._answer(question, now_s)
        now_s = yield asked.overhead(send_s, now_s)
        now_s = yield asker.overhead(receive_s, now_s)
        self._answered(question, reply, now_s)

    def _answer(self, question: Question, now_s: float) -> m.Body:
        asked = question.asked
        self._look(asked, now_s)
        asked.restless |= self._reserving  # one of its reservations may have been used
        actions = self._hear(asked, question.asker.name, question.body, now_s)
        (reply,) = [action.body for action in actions if isinstance(action, e.Reply)]
        return reply

    def _answered(self, question: Question, reply: m.Body, now_s: float) -> None:
        command, name = question.command, question.asked.name
        state = question.asker.state
        if self._reserving:
            question.asker.restless = True
        if command is None:
            message = m.Message(CLUSTER, name, 1, reply)
            state.handle(e.Replied(name, question.body, message), now_s)
            return
        placer = state.placer
        if question.body is PROBE:
            heard = placer.probed(name, reply, now_s)
        else:
            heard = placer.answered(command.request, name, reply, now_s)
        command.replies = (*command.replies, heard)
        self._next_step(command, now_s)


def make_hosts(
    engine: Engine, lim: LimConfig, fade_s: float, rng: Random
) -> tuple[Board, list[Node]]:
    """Makes all LIMs, each knowing that every other host is idle, and the board with what all know.

    The centre has a table of its own, because it is the first to know what is then broadcast.
    """
    names = [HostId(f"h{number + 1}") for number in range(engine.setup.hosts)]
    members = [
        m.Member(
            name,
            f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}",
            7901,
            7902,
            n,
            1,
        )
        for n, name in enumerate(names)
    ]
    base = InForce(lim, LoadConfig())
    board = Board(members, lim, fade_s)
    reports = POLICIES[lim.algorithm].reporting in (Reporting.VECTOR, Reporting.CENTRE)
    hosts = []
    for number, member in enumerate(members):
        cores, speed = engine.setup.power(number)
        is_centre = number == 0 and reports
        others = members[1:] if is_centre else []
        table = None if is_centre else SharedTable(member, lim, fade_s, board)
        identity = Identity(CLUSTER, member, others, "", cores, speed, drained=False)
        state = LimState(identity, base, Random(rng.getrandbits(64)), 0.0, table)
        state.table.smoothing_s = fade_s
        state.handle(e.LbmStatus(accepting=True, slots_total=SLOTS), 0.0)
        hosts.append(Node(number, state, engine.cpus[number]))
    for host in hosts:
        sample = host.state.own_sample(0.0)
        board.record(sample, 0.0)
        if reports and host is not hosts[0]:
            hosts[0].state.table.record(sample, 0.0)
    return board, hosts
