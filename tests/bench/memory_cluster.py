"""A cluster of real LIM states in one process, on virtual time: every message is encoded and
decoded as on the wire and counted, none is lost, each way takes `LATENCY_S`.

Load is made up: jobs arrive at each host by a Poisson process, are placed by the algorithm in
force, run for an exponential time and are smoothed into the index as the sampler does it.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from random import Random

from lbd.config import LimConfig, LoadConfig
from lbd.lim import events as e
from lbd.lim import messages as m
from lbd.lim.settings import InForce
from lbd.lim.state import Identity, LimState
from lbd.model import HostId, JobId, Placement, PlacementRequest, Queues
from lbd.policy.view import Ask, Nowhere, Probe, Reply
from lbd.rpc import convert
from lbd.rpc.lim_network import Encoder

LATENCY_S = 0.001
SAMPLE_S = 1.0
CORES = 2.0
SLOTS = 2


class Host:
    """One LIM, its network interface counted, and the jobs that run on it."""

    def __init__(self, state: LimState) -> None:
        self.state = state
        self.encoder = Encoder()
        self.jobs = 0
        self.smoothed = 0.0
        self.bytes = 0  # in and out
        self.messages = 0

    def counted(self, size: int) -> None:
        self.bytes += size
        self.messages += 1


class MemoryCluster:
    def __init__(self, count: int, seed: int) -> None:
        self.now_s = 0.0
        self.arrivals_per_s = 0.0  # of each host
        self.job_s = 1.0
        self.placed = self.moved = 0
        self._dice = Random(seed)
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._decoded: tuple[bytes, m.Message | None] = (b"", None)
        members = [member(number) for number in range(1, count + 1)]
        self.by_target = {one.lim_target: self._host(one, members) for one in members}
        self.hosts = {host.state.me: host for host in self.by_target.values()}
        for host in self.hosts.values():
            self.perform(host, host.state.start())
            self.perform(host, host.state.handle(accepting(host), 0.0))
            self._after(self._dice.random() * SAMPLE_S, self._sampler(host))
            self._after(self._dice.random(), self._ticker(host))

    def _host(self, me: m.Member, members: list[m.Member]) -> Host:
        others = [other for other in members if other is not me]
        identity = Identity("bench", me, others, "", CORES, 1.0, drained=False)
        in_force = InForce(LimConfig(), LoadConfig())
        return Host(LimState(identity, in_force, Random(self._dice.random()), 0.0))

    # -- time ------------------------------------------------------------------------------------

    def _after(self, pause_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_s + pause_s, next(self._numbers), what))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self._due and self._due[0][0] <= end_s:
            self.now_s, _, what = heapq.heappop(self._due)
            what()
        self.now_s = end_s

    def _ticker(self, host: Host) -> Callable[[], None]:
        def tick() -> None:
            self.perform(host, host.state.handle(e.Tick(), self.now_s))
            self._after(max(0.01, host.state.next_due_s - self.now_s), tick)

        return tick

    def _sampler(self, host: Host) -> Callable[[], None]:
        smoothing_s = LoadConfig().smoothing_s
        keep = math.exp(-SAMPLE_S / smoothing_s)

        def sample() -> None:
            host.smoothed = keep * host.smoothed + (1 - keep) * host.jobs
            sampled = e.Sampled(Queues(cpu=host.smoothed), host.smoothed / CORES, 0.0)
            self.perform(host, host.state.handle(sampled, self.now_s))
            self._after(SAMPLE_S, sample)

        return sample

    # -- messages --------------------------------------------------------------------------------

    def perform(self, host: Host, actions: list[e.Action]) -> None:
        for action in actions:
            if isinstance(action, e.Send):
                self._send(host, action)

    def _send(self, host: Host, send: e.Send) -> None:
        data = host.encoder.encode(host.state.envelope(send.body))
        target = self.by_target[send.target]
        host.counted(len(data))

        def arrive() -> None:
            reply = self._deliver(target, data)
            self._after(LATENCY_S, lambda: back(reply))

        def back(reply: bytes) -> None:
            host.counted(len(reply))
            replied = e.Replied(send.to, send.body, convert.decode(reply))
            self.perform(host, host.state.handle(replied, self.now_s))

        self._after(LATENCY_S, arrive)

    def _deliver(self, target: Host, data: bytes) -> bytes:
        target.counted(len(data))
        reply: m.Body = m.Ack()
        for action in target.state.handle(e.Received(self._decode(data)), self.now_s):
            if isinstance(action, e.Reply):
                reply = action.body
            else:
                self.perform(target, [action])
        packed = convert.encode(target.state.envelope(reply))
        target.counted(len(packed))
        return packed

    def _decode(self, data: bytes) -> m.Message:
        """A vector goes to everybody: decode it once."""
        known, message = self._decoded
        if known is not data or message is None:
            message = convert.decode(data)
            self._decoded = (data, message)
        return message

    # -- commands --------------------------------------------------------------------------------

    def begin_arrivals(self, arrivals_per_s: float, job_s: float) -> None:
        self.arrivals_per_s, self.job_s = arrivals_per_s, job_s
        for host in self.hosts.values():
            self._after(self._dice.expovariate(arrivals_per_s), self._arrivals(host))

    def _arrivals(self, host: Host) -> Callable[[], None]:
        def arrive() -> None:
            if not self.arrivals_per_s:
                return
            self._start_job(host, JobId(f"{host.state.me}-{next(self._numbers)}"))
            self._after(self._dice.expovariate(self.arrivals_per_s), arrive)

        return arrive

    def _start_job(self, origin: Host, job: JobId) -> None:
        where = self._place(origin, PlacementRequest(job))
        self.placed += 1
        self.moved += where is not origin
        where.jobs += 1
        started = e.JobStarted(job, where.state.me)
        self.perform(origin, origin.state.handle(started, self.now_s))
        self._after(
            self._dice.expovariate(1 / self.job_s), lambda: self._end_job(origin, where, job)
        )

    def _end_job(self, origin: Host, where: Host, job: JobId) -> None:
        where.jobs -= 1
        self.perform(origin, origin.state.handle(e.JobEnded(job), self.now_s))

    def _place(self, origin: Host, request: PlacementRequest) -> Host:
        """As `Lim.place` does it; questions are answered at once."""
        placer = origin.state.placer
        replies: tuple[Reply, ...] = ()
        while True:
            step = placer.next_step(request, replies, self.now_s)
            if isinstance(step, Placement | Nowhere):
                decision = placer.settle(request, step, self.now_s, dry=False)
                return self.hosts[decision.host] if isinstance(decision, Placement) else origin
            replies += self._carry_out(origin, step, request)

    def _carry_out(
        self, origin: Host, step: Probe | Ask, request: PlacementRequest
    ) -> tuple[Reply, ...]:
        placer = origin.state.placer
        if isinstance(step, Ask):
            sample = origin.state.own_sample(self.now_s)
            body = self._question(origin, step.centre, placer.question(request, sample, dry=False))
            return (placer.answered(request, step.centre, body, self.now_s),)
        return tuple(
            placer.probed(name, self._question(origin, name, m.Probe()), self.now_s)
            for name in step.hosts
        )

    def _question(self, origin: Host, name: HostId, body: m.Body) -> m.Body:
        data = convert.encode(origin.state.envelope(body))
        origin.counted(len(data))
        reply = self._deliver(self.hosts[name], data)
        origin.counted(len(reply))
        return convert.decode(reply).body


def member(number: int) -> m.Member:
    address = f"10.0.{number // 250}.{number % 250 + 1}"
    return m.Member(HostId(f"host{number:03}"), address, 7901, 7902, number, 1_700_000_000_000)


def accepting(host: Host) -> e.LbmStatus:
    return e.LbmStatus(accepting=True, slots_total=SLOTS)
