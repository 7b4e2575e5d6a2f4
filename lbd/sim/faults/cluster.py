"""A whole cluster in virtual time: LIMs, LBM cores, simulated keepers, and a dispatcher.

All deciding code is what runs in production. `Promises` checks the whole cluster after every event.
A run depends only on its seed, and `events` holds the latest events in plain English.

One file because all parts of the world meet in its one class.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random

from lbd.config.dispatch import MODES
from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import FREE
from lbd.lbm.core import execution_events as x
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.execution_events import CHECKPOINTED
from lbd.lbm.core.journey_events import CommandEnd
from lbd.lbm.core.next_host_after_refusal import Demands
from lbd.lim.core import events as lim
from lbd.model import HostId, JobId, Placement, PlacementRequest
from lbd.policy.view import Decision, Nowhere
from lbd.sim.faults import messages as m
from lbd.sim.faults.dispatcher import Dispatcher
from lbd.sim.faults.host import Host, Settings
from lbd.sim.faults.keeper import Tree
from lbd.sim.faults.lim_cluster import LimCluster
from lbd.sim.faults.links import Links
from lbd.sim.faults.outbound import Outbound, command_of
from lbd.sim.faults.owners import LOOK_S, Owners
from lbd.sim.faults.promises import Promises, check_begun
from lbd.sim.faults.queue_lines import QueueLines
from lbd.sim.faults.users import Users

LEASE_S, ORPHAN_S = 6.0, 5.0
BEGIN_TIMEOUT_S = 16.0  # longer than any host takes to wait for a slot and prepare many files
SLOTS = 2
WORK_S, FROZEN_LOOK_S = 1.5, 0.5
GANG_HOLD_S, GANG_DRAIN_S = 4.0, 3.0
TOUCHES = 0.7  # share of commands that read or write
HEARD_S = 0.3  # before another attempt to reach an LBM
PACES = (1.0, 1.02, 0.98)  # speeds of the hosts' clocks
EVENTS_KEPT = 40


def malleable_of(sent: Submission) -> Submission:
    """Makes jobs malleable: too many for the slots, and so long that waiting may pay."""
    shape = float(SLOTS), 0.0
    return replace(
        sent, slots=1, slots_most=SLOTS, first_index=1, count=4, speedup=shape, work_s=20.0
    )


SETTINGS = Settings(SLOTS)


class Cluster:
    """One class because every part of the simulated world meets here, one line each."""

    def __init__(
        self,
        seed: int,
        hosts: int = 4,
        users_s: float = 40.0,
        malleable: Rule = FREE,
        *,
        targets: bool = False,
        gangs: bool = False,
        dependencies: bool = False,
        needs: bool = False,
        settings: Settings = SETTINGS,
        work_s: float = WORK_S,
    ) -> None:
        """`users_s` is how long users run commands and submit jobs. `targets` adds arrays with a
        target time, `gangs` adds jobs that start together; both use fcfs. `dependencies` makes most
        jobs wait for other jobs or for a time, `needs` makes most need GPUs. `settings` are those
        of each host; `work_s`: how long commands and jobs run on average."""
        self.work_s = work_s
        self.rng = Random(f"cluster {seed}")
        self.lims = LimCluster(hosts, seed, LimConfig(algorithm=self.rng.choice(ALGORITHMS)))
        self.lims.check_each_event = False
        self.names = list(self.lims.names)
        self.promises = Promises()
        self.events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.moments = 0  # events after which the promises were checked
        self.hosts = {
            name: Host(name, self, settings, PACES[number % len(PACES)])
            for number, name in enumerate(self.names)
        }
        self.outbound = {name: Outbound(host, self) for name, host in self.hosts.items()}
        self.owners = Owners(
            self.hosts, lambda: self.now_s, self.log, Random(f"owners {seed}"), decide=seed % 2 == 1
        )
        self.calls: dict[JobId, HostId] = {}  # attached commands: where they were started
        terms = Terms(
            LEASE_S, crash_limit=1000, aside_s=2.0, aside_max_s=4.0, gang_hold_s=GANG_HOLD_S,
            gang_drain_s=GANG_DRAIN_S, begin_timeout_s=BEGIN_TIMEOUT_S,
        )  # fmt: skip
        mode = self.rng.choice([mode for mode in MODES if mode != "least-work"])
        mode = "fcfs" if targets or gangs else mode
        dispatcher = Dispatcher(
            mode, terms, self.rng, lambda to, what: self.queue.send(to, what), malleable
        )
        self.queue = QueueLines(self.lims, self.at, dispatcher, list(self.hosts.values()))
        self.links = Links(self.lims, self.at, self, self.names, ORPHAN_S)
        self.at(LOOK_S, self._look_for_owners)
        self.users = Users(
            self, Random(f"users {seed}"), self.names, users_s, targets=targets, gangs=gangs,
            dependencies=dependencies, needs=needs,
        )  # fmt: skip

    # Time

    @property
    def now_s(self) -> float:
        return self.lims.now_s

    def at(self, delay_s: float, body: Callable[[], None]) -> None:
        def event() -> None:
            body()
            self.queue.pump_all()
            self.check()

        self.lims.at(delay_s, event)

    def run(self, seconds: float) -> None:
        self.lims.run(seconds)

    def finish(self, limit_s: float) -> None:
        """Runs until everything has ended, and checks that it has within `limit_s`."""
        end_s = self.now_s + limit_s
        while self.now_s < end_s and not self._has_ended():
            self.run(1.0)
            self._release_all()
        self.promises.check_all_ended(self.queue.dispatcher, list(self.hosts.values()))
        self.lims.check_all()

    def _has_ended(self) -> bool:
        idle = not any(host.executions for host in self.hosts.values())
        promises, ledger = self.promises, self.queue.dispatcher.ledger
        return idle and not ledger.live() and not promises.waiting and not promises.alive

    def _release_all(self) -> None:
        """Releases all held jobs."""
        for job, live in list(self.queue.dispatcher.life.jobs.items()):
            if live.held:
                self.act("release", job)

    def check(self) -> None:
        self.moments += 1
        for host in self.hosts.values():
            self.promises.check_host(host)
        self.promises.check_queue(self.queue.dispatcher, self.queue.is_up)
        if self.queue.is_listening:
            check_begun(self.queue.dispatcher, self.now_s)

    def log(self, text: str) -> None:
        self.events.append(f"{self.now_s:9.3f} s  {text}")

    # Process trees

    def begins(self, host: HostId, tree: Tree) -> None:
        run = tree.spec.id
        self.log(f"{host}: {run} begins")
        if tree.is_queued:
            self.promises.attempt_begins(host, tree, self.queue.dispatcher, self.now_s)
        else:
            self.promises.command_begins(host, command_of(run))
            if self.rng.random() < TOUCHES:
                self.at(self.rng.expovariate(2.0 / self.work_s), lambda: self._touches(host, tree))
        self.at(self.rng.expovariate(1.0 / self.work_s), lambda: self._work_ends(host, tree))
        self._report_to_lim(host)

    def ends(self, host: HostId, tree: Tree) -> None:
        run = tree.spec.id
        self.log(f"{host}: the processes of {run} have ended")
        self.promises.ends(m.key_of(run)[0] if tree.is_queued else command_of(run))
        self._report_to_lim(host)

    def _touches(self, host: HostId, tree: Tree) -> None:
        if self.hosts[host].keeper.alive.get(tree.spec.id) is not tree or tree.is_touched:
            return
        if tree.is_frozen:
            return self.at(FROZEN_LOOK_S, lambda: self._touches(host, tree))
        tree.is_touched = True
        self.promises.touched(command_of(tree.spec.id))
        self.hosts[host].later(0.0, lambda: self._reply(host, m.Printed(tree.spec.id)))

    def _work_ends(self, host: HostId, tree: Tree) -> None:
        """Ends a command by itself, or by a limit that its keeper measures."""
        if tree.is_frozen:
            return self.at(FROZEN_LOOK_S, lambda: self._work_ends(host, tree))
        how = x.Exit(self.rng.choice((0, 0, 0, 1)))
        if tree.spec.cutoff_s and self.rng.random() < 0.3:
            how = x.Exit(137, 9, limit=x.Limit.CPU)
        elif tree.is_queued and self._may_restart(tree) and self.rng.random() < 0.1:
            how = x.Exit(CHECKPOINTED)
        self.hosts[host].keeper.exits(tree, how)

    def _may_restart(self, tree: Tree) -> bool:
        job, _ = m.key_of(tree.spec.id)
        return self.queue.dispatcher.ledger.jobs[int(job)].may_restart

    # Slots

    def slot_asked(self, host: HostId, job: JobId) -> None:
        self.promises.slot_asked(host, job)

    def slot_freed(self, host: HostId, job: JobId) -> None:
        self.promises.slot_freed(self.hosts[host], job)

    # Attached commands on the host where they run

    def is_ready(self, key: m.Key) -> None:
        self.log(f"{m.attempt_id(key)} is held")
        self.promises.held.add(key)

    def reports(self, host: HostId, job: JobId, action: x.Action) -> None:
        self.log(f"{host}: {job}: {worded(action)}")
        self.promises.reported(host, command_of(job), action)
        self._reply(host, m.Report(job, action))

    def _reply(self, host: HostId, message: m.Report | m.Printed) -> None:
        origin = self.calls[command_of(message.job)]
        if origin == host:
            self.at(0.0, lambda: self.hears(host, host, message))
        else:
            self.links.send(host, origin, message)

    def hears(self, host: HostId, sender: HostId, message: m.BetweenHosts) -> None:
        match message:
            case m.StartCommand(spec):
                self.hosts[host].start_attached(spec)
            case m.SendSignal(job, number):
                self.hosts[host].handle(job, x.Signalled(number))
            case m.LetGo(job, number):
                self.hosts[host].handle(job, x.GivenUp("its client is gone", number))
            case _:
                self.outbound[host].hear(sender, message)

    def is_listening(self, host: HostId) -> bool:
        return not self.hosts[host].is_paused

    def lost_contact(self, host: HostId, other: HostId) -> None:
        self.log(f"{host} has lost contact with {other}")
        self.outbound[host].lost_contact(other)
        for job, execution in list(self.hosts[host].executions.items()):
            if execution.spec.kind is x.Kind.ATTACHED and self.calls.get(command_of(job)) == other:
                self.hosts[host].handle(job, x.GivenUp("its client is gone"))

    def _look_for_owners(self) -> None:
        self.at(LOOK_S, self._look_for_owners)
        self.owners.look()

    def evicted(self, host: HostId, key: m.Key) -> None:
        self.log(f"{host}: attempt {key[1]} of job {key[0]} is moved")
        self.promises.attempt_evicted(host, key, self.queue.dispatcher)

    # Attached commands on their way

    def call(self, host: HostId, job: JobId, demands: Demands, user: str) -> None:
        if not self.is_listening(host):
            return  # lbrun runs the command by itself
        self.log(f"{host}: {user} calls {job} ({demands.mode} {demands.host or ''})")
        self.calls[job] = host
        self.promises.called(job)
        self.outbound[host].begin(job, demands, user)

    def say(self, job: JobId, event: e.Event) -> None:
        host = self.calls.get(job)
        if host is None:
            return
        if self.is_listening(host):
            return self.outbound[host].handle(job, event)
        self.at(HEARD_S, lambda: self.say(job, event))

    def leave(self, job: JobId) -> None:
        if job in self.promises.waiting and job not in self.promises.alive_here:
            self.log(f"the caller of {job} is gone")
            self.promises.caller_gone(job)
            self.say(job, e.CallerGone())

    def ask_lim(
        self, host: HostId, job: JobId, question: e.Question, answer: Callable[[e.Event], None]
    ) -> None:
        request = PlacementRequest(
            job, question.wanted, question.excluded, must_leave=question.must_leave,
            must_stay=question.must_stay, may_wait=question.may_wait,
        )  # fmt: skip

        def decided(decision: Decision) -> None:
            if isinstance(decision, Nowhere):
                return answer(e.LimRefused(decision.reason))
            assert isinstance(decision, Placement)
            answer(e.LimSaid(decision.verdict, decision.host, "", decision.reason))

        virtual = self.lims.hosts.get(host)
        if virtual is not None and virtual.running and not virtual.stopped:
            self.lims.submit(host, request, decided)

    def started(self, host: HostId, job: JobId, where: HostId) -> None:
        self._to_lim(host, lim.JobStarted(job, where))

    def discharged(self, host: HostId, job: JobId) -> None:
        self._to_lim(host, lim.JobEnded(job))

    def slots(self) -> e.Slots:
        of = {name: host.lbm.line.slots for name, host in self.hosts.items()}
        return {name: (s.total, max(0, s.total - s.used)) for name, s in of.items()}

    def reaches(self, host: HostId, to: HostId) -> bool:
        return host == to or self.links.reaches(host, to)

    def send(self, host: HostId, to: HostId, message: m.BetweenHosts) -> None:
        if host == to:
            self.at(0.0, lambda: self.hears(host, host, message))
        else:
            self.links.send(host, to, message)

    def runs_here(self, host: HostId, job: JobId) -> None:
        """The caller becomes the command, which continues whatever happens to the LBM."""
        if job not in self.promises.waiting:
            return self.say(job, e.EndedHere())  # its caller is gone, and the LBM learns of that
        self.log(f"{host}: {job} runs here")
        self.promises.runs_here(host, job)
        self.at(self.rng.expovariate(1.0 / self.work_s), lambda: self._ended_here(job))

    def _ended_here(self, job: JobId) -> None:
        if job in self.promises.alive_here:
            self.promises.ended_here(job)
            self.say(job, e.EndedHere())

    def finished(self, host: HostId, job: JobId, outcome: CommandEnd) -> None:
        self.log(f"{host}: {job} ends for its caller: {outcome.status} {outcome.reason}")
        self.promises.ended_for_caller(job)

    def _report_to_lim(self, host: HostId) -> None:
        slots = self.hosts[host].lbm.line.slots
        used = min(slots.used, slots.total)
        running = len(self.hosts[host].keeper.alive)
        if (virtual := self.lims.hosts.get(host)) is not None:
            virtual.queue = float(running)
        self._to_lim(
            host,
            lim.LbmStatus(
                accepting=True, slots_total=slots.total, slots_used=used, jobs_foreign=running
            ),
        )

    def _to_lim(self, host: HostId, event: lim.Event) -> None:
        virtual = self.lims.hosts.get(host)
        if virtual is not None and virtual.running and not virtual.stopped:
            self.lims.handle(virtual, event)

    # The queue

    def submit(self, host: HostId, sent: Submission) -> int:
        """Submits jobs. They count even if the acknowledgement is lost."""
        first = 0
        if self.is_listening(host) and self.queue.is_listening:
            dispatcher = self.queue.dispatcher
            is_plain = not sent.gang and sent.target is None and sent.deadline is None
            if dispatcher.malleable is not FREE and is_plain:
                sent = malleable_of(sent)
            jobs = dispatcher.submit(sent, self.now_s, self.queue.unix_s)
            first = int(jobs[0])
            self.promises.acknowledged.update(jobs)
            self.log(f"{host}: jobs {', '.join(jobs)} are acknowledged")
            self.queue.flush()
        return first

    def act(self, verb: str, job: JobId) -> None:
        if self.queue.is_listening:
            self.log(f"{verb} job {job}")
            self.queue.dispatcher.act(verb, job, self.now_s)
            self.queue.flush()

    # Faults of hosts

    def step_clock(self, seconds: float) -> None:
        """Sets the wall clock of the dispatcher's host; the clocks of leases are not affected."""
        self.queue.wall_offset_s += seconds

    def lose_callers(self, name: HostId) -> None:
        """Ends the callers on a host that was switched off."""
        for job in [job for job, host in self.promises.alive.items() if host == name]:
            if job in self.promises.alive_here:
                self.promises.ended_here(job)

    def lose_lbm(self, name: HostId) -> None:
        """Kills the LBM."""
        self.hosts[name].lose_lbm()
        self.promises.asked.pop(name, None)
        self.links.killed(name)
        for job in self.outbound[name].lose():
            self.promises.caller_gone(job)

    def start_lbm(self, name: HostId) -> None:
        """Starts an LBM without saved state."""
        self.hosts[name].start_afresh()

    def continue_lbm(self, name: HostId) -> None:
        """Continues an LBM that was stopped and has lost nothing."""
        self.hosts[name].go_on()

    def resume_lbm(self, name: HostId) -> None:
        """Starts an LBM that takes over the state that the previous one left with its keeper."""
        host = self.hosts[name]
        if host.keeper.is_dead:
            self.lose_lbm(name)
            return self.start_lbm(name)
        host.resume()
        self.owners.lbm_restarted(name)
        host.connected = False
        host.up.clear()
        self.outbound[name].resume()


def worded(action: x.Action) -> str:
    match action:
        case x.ReportRefused(reason, phase):
            return f"refused ({phase}: {reason})"
        case x.ReportEnded(outcome):
            return f"ended ({outcome.cause.value} {outcome.exit_status} {outcome.reason})"
    return "begun"
