"""A cluster of LIMs in virtual time: the states that run in production, on a memory network.

Every message is encoded and decoded on its way, so the scenarios cover the wire format; every event
is followed by `check_invariants`. A run follows from its seed alone. The network can lose, delay,
cut and heal; hosts can crash, stop for a while (like SIGSTOP), start again and join.
"""

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.config import LimConfig
from lbd.lim import events as e
from lbd.lim import messages as m
from lbd.lim.state import LimState
from lbd.model import HostId, HostState, Placement, PlacementRequest, Queues
from lbd.policy.view import Ask, Decision, Nowhere, Probe, Reply
from lbd.rpc import convert
from lbd.testing import builders

LATENCY_S = (0.0002, 0.002)
SAMPLE_S = 1.0


@dataclass
class VirtualHost:
    """One host. `queue` is what its sampler sees, in tasks, until a test changes it."""

    state: LimState
    queue: float = 0.0
    running: bool = True
    stopped: bool = False  # as by SIGSTOP: says nothing, loses nothing
    drained_kept: bool = False  # its file in the state directory
    failure: str = ""
    log: list[str] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    bytes: int = 0  # in and out
    highest: dict[HostId, tuple[int, int]] = field(default_factory=dict)


class VirtualCluster:
    def __init__(
        self, hosts: int, seed: int, params: LimConfig | None = None, loss: float = 0.0
    ) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.params = params or LimConfig()
        self.loss = loss  # share of messages that vanish
        self.now_s = 1000.0
        self.hosts: dict[HostId, VirtualHost] = {}
        self.cuts: set[frozenset[HostId]] = set()
        self.names = [builders.host(number) for number in range(1, hosts + 1)]
        self.check_each_event = True
        self._targets: dict[str, HostId] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._incarnations = itertools.count(1)
        for name in self.names:
            self.at(self.dice.uniform(0, 0.5), lambda name=name: self.start(name))  # type: ignore[misc]

    # -- time ------------------------------------------------------------------------------------

    def at(self, delay_s: float, body: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_s + delay_s, next(self._order), body))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._queue and self._queue[0][0] <= end_s:
            self.now_s, _, body = heapq.heappop(self._queue)
            body()
        self.now_s = end_s

    def run_until(self, condition: Callable[[], bool], limit_s: float, what: str) -> float:
        """Seconds it took. Raises AssertionError with the seed if it does not come true."""
        began_s = self.now_s
        while not condition():
            if self.now_s - began_s >= limit_s:
                raise AssertionError(f"seed {self.seed}: not within {limit_s:g} s: {what}")
            self.run(0.1)
        return self.now_s - began_s

    # -- hosts -----------------------------------------------------------------------------------

    def start(self, name: HostId, join: str = "", address: str = "", listed: bool = True) -> None:
        """Start a host's LIM, for the first time or anew."""
        old = self.hosts.get(name)
        state = builders.lim_state(
            name,
            others=[n for n in self.names if n != name] if listed and not join else (),
            params=self.params,
            join=join,
            incarnation=next(self._incarnations),
            seed=self.dice.getrandbits(32),
            now_s=self.now_s,
            drained=old.drained_kept if old else False,
            address=address,
        )
        host = VirtualHost(state, drained_kept=old.drained_kept if old else False)
        self.hosts[name] = host
        self._targets[state.membership.me.lim_target] = name
        self.perform(host, state.start())
        self.handle(host, e.LbmStatus(accepting=True, slots_total=2))
        self._sample(host)
        self._tick(host)

    def crash(self, name: str) -> None:
        self.hosts[HostId(name)].running = False

    def leave(self, name: str) -> None:
        host = self.hosts[HostId(name)]
        self.handle(host, e.Stopping())
        self.at(0.1, lambda: setattr(host, "running", False))

    def stop(self, name: str) -> None:
        self.hosts[HostId(name)].stopped = True

    def resume(self, name: str) -> None:
        self.hosts[HostId(name)].stopped = False

    def cut(self, *names: str) -> None:
        """Cut these hosts off from all others; among themselves they still talk."""
        inside = set(map(HostId, names))
        outside = set(self.hosts) - inside
        self.cuts |= {frozenset((a, b)) for a in inside for b in outside}

    def heal(self) -> None:
        self.cuts.clear()

    def load(self, **tasks: float) -> None:
        """Set what the samplers see: load(h1=3.0)."""
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
                case e.SaveDrained():
                    host.drained_kept = action.drained
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
            tasks = max(0.0, host.queue + self.dice.uniform(-0.02, 0.02))
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
        """`answered` is called once: with the reply, or with None at the deadline."""
        waiting = [True]

        def finish(reply: m.Message | None) -> None:
            if waiting and not host.stopped:
                waiting.clear()
                answered(reply)

        data = convert.encode(host.state.envelope(body))
        host.sent[type(body).__name__] += 1
        host.bytes += len(data)
        self.at(timeout_s, lambda: finish(None))
        if self._passes(host.state.me, self._targets.get(target)):
            self.at(self.dice.uniform(*LATENCY_S), lambda: self._arrive(target, data, host, finish))

    def _passes(self, sender: HostId, to: HostId | None) -> bool:
        if to is None or frozenset((sender, to)) in self.cuts:
            return False
        return self.dice.random() >= self.loss

    def _arrive(
        self,
        target: str,
        data: bytes,
        sender: VirtualHost,
        finish: Callable[[m.Message | None], None],
    ) -> None:
        name = self._targets[target]
        host = self.hosts[name]
        if not host.running or host.stopped:
            return
        message = convert.decode(data)
        host.received[type(message.body).__name__] += 1
        host.bytes += len(data)
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
        packed = convert.encode(host.state.envelope(replies[0]))
        host.bytes += len(packed)
        sender.bytes += len(packed)
        if self._passes(name, sender.state.me):
            reply = convert.decode(packed)
            self.at(self.dice.uniform(*LATENCY_S), lambda: finish(reply))

    # -- commands --------------------------------------------------------------------------------

    def place(
        self, name: str, request: PlacementRequest, dry: bool = False
    ) -> tuple[Decision, float]:
        """The decision and the seconds it took."""
        began_s = self.now_s
        found: list[Decision] = []
        self._place(self.hosts[HostId(name)], request, dry, (), began_s, found)
        while not found:
            self.run(0.0005)
        return found[0], self.now_s - began_s

    def _place(
        self,
        host: VirtualHost,
        request: PlacementRequest,
        dry: bool,
        replies: tuple[Reply, ...],
        began_s: float,
        found: list[Decision],
    ) -> None:
        placer = host.state.placer
        step = placer.next_step(request, replies, self.now_s, dry)
        if isinstance(step, Placement | Nowhere):
            found.append(placer.settle(request, step, self.now_s, dry))
            return
        left_s = began_s + host.state.in_force.lim.probe_timeout_s - self.now_s
        entries = host.state.table.entries

        def go_on(reply: Reply) -> None:
            self._place(host, request, dry, (*replies, reply), began_s, found)

        if isinstance(step, Ask):
            centre = step.centre
            question = placer.question(request, host.state.own_sample(self.now_s), dry)

            def decided(reply: m.Message | None) -> None:
                go_on(placer.answered(request, centre, reply.body if reply else None, self.now_s))

            self.deliver(host, entries[centre].member.lim_target, question, left_s, decided)
            return
        assert isinstance(step, Probe)
        (asked,) = step.hosts  # all of them ask one after the other

        def probed(reply: m.Message | None) -> None:
            go_on(placer.probed(asked, reply.body if reply else None, self.now_s))

        target = entries[asked].member.lim_target
        self.deliver(host, target, m.Probe(), left_s * step.time_share, probed)

    # -- what must hold --------------------------------------------------------------------------

    def check_invariants(self, host: VirtualHost) -> None:
        """What holds in one host after every event, whatever happened."""
        state, table = host.state, host.state.table
        where = f"seed {self.seed}, {state.me} at {self.now_s:.3f} s"
        assert state.me in table.entries, where
        assert state.centre in table.entries, where
        assert math.isfinite(state.next_due_s), where
        seen = table.view(state.centre, self.now_s)
        assert set(seen.hosts) == set(table.entries), where
        for name, entry in table.entries.items():
            charges = table.charges(name)
            assert charges >= 0, where
            fresh = table._make_view(entry, charges, self.now_s, own=name == state.me)
            assert seen.hosts[name] == fresh, f"{where}: stale view of {name}"
            if entry.sample is not None:
                order = (entry.sample.incarnation, entry.sample.number)
                assert order >= host.highest.get(name, (0, 0)), f"{where}: {name} went back"
                host.highest[name] = order
                assert entry.sampled_at_s <= self.now_s + 1e-6, where

    def check_all(self) -> None:
        for host in self.alive():
            self.check_invariants(host)

    def agreed_centre(self) -> HostId | None:
        """The centre, if all living hosts name the same."""
        named = {host.state.centre for host in self.alive()}
        return named.pop() if len(named) == 1 else None

    def all_see_all(self) -> bool:
        """Whether all have started and each living host sees exactly the living ones as up."""
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
