"""A cluster of LIMs in virtual time: the production states, on a simulated network.

`check_invariants` runs after every event. A run depends only on its seed. The network can lose,
duplicate, delay, cut and heal; hosts can crash, stop for a while (like SIGSTOP), restart and join.
Unlike `balance/lims.py`, which gains speed by leaving out what changes nothing, this sends every
message of every host.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lbd.config.schema import LimConfig
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import sends
from lbd.lim.core.state import LimState
from lbd.model import HostId, HostState, Placement, PlacementRequest, Queues
from lbd.policy.view import Ask, Decision, Nowhere, Probe, Reply
from lbd.sim.faults import lim_hosts
from lbd.sim.faults.invariants import Invariants
from lbd.sim.faults.network import Network

SAMPLE_S = 1.0
LATE_TIMER_S = 0.1  # how late a timer fires that became due while its host was stopped


@dataclass
class VirtualHost:
    """One host. `queue` is the number of tasks that its sampler sees, until a test changes it."""

    state: LimState
    queue: float = 0.0
    running: bool = True
    stopped: bool = False  # as by SIGSTOP: sends nothing, loses nothing
    drained_kept: bool = False  # its file in the state directory
    settings_kept: m.Settings = field(default_factory=m.Settings)  # likewise, of other hosts
    failure: str = ""
    log: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    bytes: int = 0  # in and out
    seen: Invariants = field(default_factory=Invariants)
    stopped_until_s: float = -math.inf


class LimCluster(Network):
    is_strict = False  # whether only some hosts may set a policy

    def __init__(
        self, hosts: int, seed: int, params: LimConfig | None = None, loss: float = 0.0
    ) -> None:
        super().__init__(seed, loss)
        self.params = params or LimConfig()
        self.hosts: dict[HostId, VirtualHost] = {}
        self.names = [lim_hosts.host(number) for number in range(1, hosts + 1)]
        self.check_each_event = True
        self.histories: list[list[str]] | None = None  # of every start; set to [] to record them
        self._targets: dict[str, HostId] = {}
        self._incarnations = itertools.count(1)
        for name in self.names:
            self.at(self.rng.uniform(0, 0.5), lambda name=name: self.start(name))  # type: ignore[misc]

    # -- hosts -----------------------------------------------------------------------------------

    def start(self, name: HostId, join: str = "", address: str = "", listed: bool = True) -> None:
        """Starts a host's LIM, for the first time or again."""
        old = self.hosts.get(name)
        kept = (old.drained_kept, old.settings_kept) if old else (False, m.Settings())
        state = lim_hosts.lim_state(
            name,
            others=[n for n in self.names if n != name] if listed and not join else (),
            params=self.params,
            join=join,
            incarnation=next(self._incarnations),
            seed=self.rng.getrandbits(32),
            now_s=self.now_s,
            drained=kept[0],
            settings=kept[1],
            is_strict=self.is_strict,
            address=address,
            write=self._history(),
        )
        host = VirtualHost(state, drained_kept=kept[0], settings_kept=kept[1])
        self.hosts[name] = host
        self._targets[state.membership.me.lim_target] = name
        self.perform(host, state.start())
        self.handle(host, e.LbmStatus(accepting=True, slots_total=2))
        self._sample(host)
        self._tick(host)

    def _history(self) -> Callable[[str], None] | None:
        if self.histories is None:
            return None
        self.histories.append([])
        return self.histories[-1].append

    def crash(self, name: str) -> None:
        self.hosts[HostId(name)].running = False

    def leave(self, name: str, for_good: bool = False) -> None:
        host = self.hosts[HostId(name)]
        self.handle(host, e.SetDrained(host.state.drained, for_good))
        self.handle(host, e.Stopping())
        self.at(0.1, lambda: setattr(host, "running", False))

    def stop(self, name: str) -> None:
        self.hosts[HostId(name)].stopped = True
        self.hosts[HostId(name)].stopped_until_s = math.inf

    def resume(self, name: str) -> None:
        host = self.hosts[HostId(name)]
        if host.stopped:
            host.stopped, host.stopped_until_s = False, self.now_s

    def cut(self, *names: str) -> None:
        """Cuts these hosts off from all others; they still reach each other."""
        inside = set(map(HostId, names))
        self.cut_between(inside, set(self.hosts) - inside)

    def load(self, **tasks: float) -> None:
        """Sets what the samplers see: load(h1=3.0)."""
        for name, queue in tasks.items():
            self.hosts[HostId(name)].queue = queue

    def alive(self) -> list[VirtualHost]:
        return [host for host in self.hosts.values() if host.running and not host.stopped]

    def __getitem__(self, name: str) -> VirtualHost:
        return self.hosts[HostId(name)]

    # -- the shell of each host ------------------------------------------------------------------

    def handle(self, host: VirtualHost, event: e.Event) -> None:
        due_s = host.state.next_due_s
        self.perform(host, host.state.handle(event, self.now_s))
        if host.state.next_due_s < due_s:
            self.at(0, lambda: self._tick_if_due(host))
        if self.check_each_event:
            self.check_invariants(host)

    def perform(self, host: VirtualHost, actions: Sequence[e.Action]) -> None:
        for action in actions:
            match action:
                case e.Send():
                    self._send(host, action)
                case e.Broadcast():
                    for send in sends(host.state.table, action):
                        self._send(host, send)
                case e.SaveDrained():
                    host.drained_kept = action.drained
                case e.SaveLasting():
                    host.settings_kept = action.settings
                case e.Log():
                    host.log.append(action.text)
                case e.Stop():
                    host.failure = action.reason
                    host.running = False
                case _:
                    pass

    def _sample(self, host: VirtualHost) -> None:
        if not host.running:
            return
        if not host.stopped:
            tasks = max(0.0, host.queue + self.rng.uniform(-0.02, 0.02))
            cores = host.state.identity.cores
            self.handle(host, e.Sampled(Queues(cpu=tasks), tasks / cores, min(1.0, tasks / cores)))
        self.at(SAMPLE_S, lambda: self._sample(host))

    def _tick(self, host: VirtualHost) -> None:
        if not host.running:
            return
        if not host.stopped:
            self.handle(host, e.Tick())
        pause_s = host.state.next_due_s - self.now_s
        self.at(max(pause_s, 0.001), lambda: self._tick(host))

    def _tick_if_due(self, host: VirtualHost) -> None:
        if host.running and not host.stopped and host.state.next_due_s <= self.now_s:
            self.handle(host, e.Tick())

    # -- the network -----------------------------------------------------------------------------

    def _send(self, host: VirtualHost, send: e.Send) -> None:
        def answered(reply: m.Message | None) -> None:
            if not host.running:
                return
            if reply is None:
                self.handle(host, e.Undelivered(send.to, send.body, "no answer"))
            else:
                self.handle(host, e.Replied(send.to, send.body, reply))

        self.deliver(host, send.target, send.body, send.timeout_s, answered)

    def deliver(
        self,
        host: VirtualHost,
        target: str,
        body: m.Body,
        timeout_s: float,
        answered: Callable[[m.Message | None], None],
    ) -> None:
        """Calls `answered` once: with the reply, or with None at the deadline, which a stopped host
        notices only when it continues."""
        waiting = [True]

        def give_up() -> None:
            if waiting and host.stopped and host.running:
                self.at(LATE_TIMER_S, give_up)
            finish(None)

        def finish(reply: m.Message | None) -> None:
            if waiting and not host.stopped:
                waiting.clear()
                answered(reply)

        message, size = self.carried(host.state.envelope(body))
        host.sent[type(body).__name__] += 1
        host.bytes += size
        self.at(timeout_s, give_up)
        if not self.passes(host.state.me, self._targets.get(target)):
            return
        for _ in range(self.copies()):
            delay_s = self.delay_s()
            self.at(delay_s, lambda: self._arrive(target, message, size, host, finish))

    def carried(self, message: m.Message) -> tuple[m.Message, int]:
        """Returns the message as it arrives, and its size in bytes if that is counted."""
        return message, 0

    def _arrive(
        self,
        target: str,
        message: m.Message,
        size: int,
        sender: VirtualHost,
        finish: Callable[[m.Message | None], None],
    ) -> None:
        name = self._targets[target]
        host = self.hosts[name]
        if not host.running or host.stopped:
            return
        host.received[type(message.body).__name__] += 1
        host.bytes += size
        replies = []
        due_s = host.state.next_due_s
        for action in host.state.handle(e.Received(message), self.now_s):
            if isinstance(action, e.Reply):
                replies.append(action.body)
            else:
                self.perform(host, [action])
        if host.state.next_due_s < due_s:
            self.at(0, lambda: self._tick_if_due(host))
        assert len(replies) == 1, f"{len(replies)} replies to {message}"
        if self.check_each_event:
            self.check_invariants(host)
        reply, size = self.carried(host.state.envelope(replies[0]))
        host.bytes += size
        sender.bytes += size
        if self.passes(name, sender.state.me):
            self.at(self.delay_s(), lambda: finish(reply))

    # -- commands --------------------------------------------------------------------------------

    def place(
        self, name: str, request: PlacementRequest, dry: bool = False
    ) -> tuple[Decision, float]:
        """Returns the decision and the seconds it took."""
        began_s = self.now_s
        found: list[Decision] = []
        self.submit(name, request, found.append, dry)
        while not found:
            self.run(0.0005)
        return found[0], self.now_s - began_s

    def submit(
        self,
        name: str,
        request: PlacementRequest,
        decided: Callable[[Decision], None],
        dry: bool = False,
    ) -> None:
        """Calls `decided` with the decision, unless the host crashes first."""
        self._place(self.hosts[HostId(name)], request, dry, (), self.now_s, decided)

    def _place(
        self,
        host: VirtualHost,
        request: PlacementRequest,
        dry: bool,
        replies: tuple[Reply, ...],
        began_s: float,
        decided: Callable[[Decision], None],
    ) -> None:
        if not host.running:
            return
        placer = host.state.placer
        step = placer.next_step(request, replies, self.now_s, dry)
        if isinstance(step, Placement | Nowhere):
            decided(placer.settle(request, step, self.now_s, dry))
            return
        left_s = began_s + host.state.in_force.lim.probe_timeout_s - self.now_s
        entries = host.state.table.entries

        def go_on(reply: Reply) -> None:
            self._place(host, request, dry, (*replies, reply), began_s, decided)

        if isinstance(step, Ask):
            centre = step.centre
            question = placer.question(request, host.state.own_sample(self.now_s), dry)

            def on_reply(reply: m.Message | None) -> None:
                go_on(placer.answered(request, centre, reply.body if reply else None, self.now_s))

            self.deliver(host, entries[centre].member.lim_target, question, left_s, on_reply)
            return
        assert isinstance(step, Probe)
        (asked,) = step.hosts  # probes one host after the other

        def probed(reply: m.Message | None) -> None:
            go_on(placer.probed(asked, reply.body if reply else None, self.now_s))

        target = entries[asked].member.lim_target
        self.deliver(host, target, m.Probe(), left_s * step.time_share, probed)

    # -- what must hold --------------------------------------------------------------------------

    def check_invariants(self, host: VirtualHost) -> None:
        """Checks what holds in one host after every event."""
        where = f"seed {self.seed}, {host.state.me} at {self.now_s:.3f} s"
        host.seen.check(host.state, self.now_s, where)

    def check_all(self) -> None:
        for host in self.alive():
            self.check_invariants(host)

    def agreed_centre(self) -> HostId | None:
        """Returns the centre if all running hosts agree on it."""
        named = {host.state.centre for host in self.alive()}
        return named.pop() if len(named) == 1 else None

    def all_see_all(self) -> bool:
        """Returns whether all have started and each running host sees the running ones up."""
        if not set(self.names) <= set(self.hosts):
            return False
        alive = {host.state.me for host in self.alive()}
        for host in self.alive():
            table = host.state.table
            usable = (HostState.UP, HostState.DRAINED)
            up = {n for n in table.entries if table.state(n, self.now_s)[0] in usable}
            if up != alive:
                return False
        return True

    def settled(self) -> bool:
        return self.all_see_all() and self.agreed_centre() is not None
