"""Everything a LIM decides: events in, actions out. No clock, no IO, no random numbers of its own.

1. Nothing here fails because a message was lost, late, duplicated or out of order. Samples carry
   (incarnation, number), settings carry (counter, author), and everything is repeated.
2. Nothing here waits. A placement needs at most one round of questions, with a deadline
   (`placement.py`); whatever happens to other hosts, the answer "here" is always available.

The parts: `table` what is known, `membership` who belongs, `election` who is the centre, `settings`
the algorithm and its parameters, `broadcast` what is sent each period, `placement` the commands.
One file because it is one state machine: what follows from an event depends on all the others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.errors import ConfigError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.adaptive import Tuner, changes
from lbd.lim.core.broadcast import LoadSender, broadcast, send
from lbd.lim.core.election import Election
from lbd.lim.core.events import Action, Log
from lbd.lim.core.membership import Membership, told_of
from lbd.lim.core.placement import Placer
from lbd.lim.core.replica import Replica
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.settings import InForce, as_set, in_force, obeyed, retuned, wanted_drain
from lbd.lim.core.signed import described, lacking, merged
from lbd.lim.core.table import Table
from lbd.lim.core.ways_in import WaysIn
from lbd.load.index import fade_s
from lbd.model import Closed, HostId, LoadVector, Queues
from lbd.policy.registry import POLICIES

HOUSEKEEPING_S = 1.0
TAKEN = e.Reply(m.Ack())


@dataclass(frozen=True, slots=True)
class Identity:
    """What a LIM knows of itself and its cluster before it starts."""

    cluster: str
    me: m.Member
    others: Sequence[m.Member]  # the other configured hosts
    join_target: str  # "address:port" of a LIM to join through, or ""
    cores: float  # usable
    speed: float
    drained: bool  # before the restart
    settings: m.Settings = field(default_factory=m.Settings)  # the part that outlives all LIMs
    remembered: Sequence[m.Member] = ()  # hosts that had joined before the restart
    is_strict: bool = False  # only some hosts may make a policy, and it must be signed
    is_proved: bool = False  # a certificate proves our name
    clock_ms: int = 0  # at our start, if our incarnation is above it


class LimState:
    def __init__(
        self, identity: Identity, base: InForce, rng: Random, now_s: float,
        table: Table | None = None,  # one that shares parts with other LIMs
    ) -> None:  # fmt: skip
        self.identity, self.base = identity, base
        self.settings, self.in_force = identity.settings, in_force(base, identity.settings)
        lim, fading_s = self.in_force.lim, fade_s(self.in_force.load)
        self.table = table or Table(identity.me, lim, fading_s, now_s)
        self.table.set_params(lim, fading_s, self.settings.drains)
        for member in identity.others:
            self.table.add(member, listed=True, now_s=now_s)
        clock_ms, ways_in = identity.clock_ms, WaysIn(identity.join_target, identity.remembered)
        self.membership = Membership(identity.me, self.table, ways_in, now_s, clock_ms)
        self.reservations = Reservations(self.table, rng)
        self.placer = Placer(self.table, self.reservations, rng)
        self.lbm = e.LbmStatus(accepting=False, closed=Closed.STARTING)
        self.drained, self.next_due_s = identity.drained, now_s
        self._rng, self._tuner = rng, Tuner()
        self._load_sender = LoadSender(self.table, Election(identity.me.name), self.reservations)
        self._replica, self._sampled = Replica(self.table), e.Sampled(Queues(), 0.0, 0.0)
        self._sampled_at_s, self._number = now_s, 0
        self._vector: LoadVector | None = None  # from the last sample and LBM status
        self._next_exchange_s = self._next_housekeeping_s = now_s
        self._next_knock_s = now_s + lim.keepalive_s
        self._publish(now_s)
        self.placer.centre = self._elect(now_s)

    @property
    def me(self) -> HostId:
        return self.table.me

    @property
    def centre(self) -> HostId | None:
        return self.placer.centre

    def start(self) -> list[Action]:
        """Returns the first actions, once messages can be sent."""
        return self.membership.first_hellos()

    def envelope(self, body: m.Body) -> m.Message:
        return m.Message(self.identity.cluster, self.me, self.membership.me.incarnation, body)

    def handle(self, event: e.Event, now_s: float) -> list[Action]:
        """Returns the actions that an event calls for."""
        match event:
            case e.Tick():
                return self._tick(now_s)
            case e.Sampled():
                if event is not self._sampled:
                    self._sampled, self._vector = event, None
                self._sampled_at_s = now_s
                self._publish(now_s)
            case e.Received():
                return self._received(event.message, now_s)
            case e.Replied():
                return self._replied(event, now_s)
            case e.JobEnded():
                self.placer.job_ended(event.job)
            case e.LbmStatus():
                self._lbm_status(event, now_s)
            case e.JobStarted():
                self.table.charge(event.host, event.job, now_s)
            case e.Trouble(host, reason):
                self.table.avoid(host, reason, now_s)
                return [Log(f"host {host} is avoided for now: {reason}", warning=True, peer=host)]
            case e.SetDrained():
                self.membership.leaves_for_good = event.for_good
                return self._set_drained(event.drained, now_s)
            case e.ChangeSettings():
                settings = event.applied_to(self.settings, self.me)
                return self._adopt(settings, now_s) + self._send_to_all(settings, now_s)
            case e.Undelivered():
                if isinstance(event.sent, m.Report) and event.to == self.centre:
                    self._load_sender.reporter.again()
                if event.skewed:
                    return self._skewed(event.to, event.why)
            case e.Skewed():
                return self._skewed(event.host, event.why)
            case e.Stopping():
                return self._send_to_all(self.membership.goodbye(), now_s, alive=True)
        return []

    # -- our own load ----------------------------------------------------------------------------

    def _publish(self, now_s: float) -> None:
        """Puts our newest sample into the table like any other host's."""
        self._number += 1
        if self._vector is None:
            self._vector = self.lbm.vector(self._sampled, self.identity.cores, self.identity.speed)
        me, age_s = self.membership.me, now_s - self._sampled_at_s
        sample = m.Sample(me.name, me.incarnation, self._number, age_s, self._vector, self.drained)
        self.table.publish(sample, now_s)

    def own_sample(self, now_s: float) -> m.Sample:
        return self.table.own_sample(now_s)

    def _lbm_status(self, status: e.LbmStatus, now_s: float) -> None:
        if status == self.lbm:
            return
        if (status.accepting, status.closed) != (self.lbm.accepting, self.lbm.closed):
            self._exchange_soon(now_s)
        if status.jobs_foreign < self.lbm.jobs_foreign or status.jobs_local < self.lbm.jobs_local:
            self.reservations.departed()
        self.lbm, self._vector = status, None
        self._publish(now_s)

    def _set_drained(self, drained: bool, now_s: float, by: str = "") -> list[Action]:
        if drained == self.drained:
            return []
        self.drained = drained
        self._publish(now_s)
        self._exchange_soon(now_s)
        return [e.SaveDrained(drained), Log(f"{'drained' if drained else 'no longer drained'}{by}")]

    def drained_there(self, name: HostId, drained: bool) -> None:
        self.table.drained_there(name, drained)

    # -- time ------------------------------------------------------------------------------------

    def _tick(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        if now_s >= self._next_housekeeping_s:
            self._next_housekeeping_s = now_s + HOUSEKEEPING_S
            changes = POLICIES[self.in_force.lim.algorithm].reporting.of_changes
            self.table.expire_charges(now_s, silence_counts=changes)
            actions += self.membership.forget_the_lost(now_s)
            actions += self._elect_again(now_s)
            is_centre = self.placer.is_centre
            actions += self._load_sender.silence.look(now_s, says=is_centre)
            if is_centre and self.settings.counter < m.COUNTER_MAX:
                actions += self._tune(now_s)
        if now_s >= self._next_knock_s:
            self._next_knock_s = now_s + self.in_force.lim.keepalive_s
            actions += self.membership.join_again() + self.membership.greet_again(now_s, self._rng)
        if now_s >= self._next_exchange_s:
            self._next_exchange_s = now_s + self.in_force.lim.exchange_period_s
            ended = () if self.placer.is_centre else self.placer.take_ended()
            actions += self._load_sender.exchange(self.centre, self.settings, ended, now_s)
        self.next_due_s = min(self._next_housekeeping_s, self._next_knock_s, self._next_exchange_s)
        return actions

    def owes_keepalive(self, now_s: float) -> bool:
        """Whether the next tick sends something although nothing has changed."""
        silent = self._load_sender.reporter.was_silent(now_s, self.in_force.lim)
        return silent or now_s >= self._next_knock_s

    def _exchange_soon(self, now_s: float) -> None:
        self._next_exchange_s = self.next_due_s = now_s

    def _elect(self, now_s: float) -> HostId:
        silence_s, table = self.in_force.lim.centre_silence_s, self.table
        return self._load_sender.election.centre(table.ranking(), table.is_gone, now_s, silence_s)

    def _elect_again(self, now_s: float) -> list[Action]:
        centre = self._elect(now_s)
        if centre == self.placer.centre:
            return []
        self.placer.centre = centre
        self._load_sender.reporter.again()
        self._exchange_soon(now_s)
        if centre == self.me:
            self._load_sender.restart()
            self._tuner.restart()
        actions: list[Action] = [Log(f"the load information centre is {centre}", peer=centre)]
        if self._replica.has_part_of(centre):  # a host that sends it Hello gets everything
            actions += self.membership.ask_members(centre, now_s)
        return actions

    # -- settings --------------------------------------------------------------------------------

    def _adopt(self, settings: m.Settings, now_s: float) -> list[Action]:
        """Takes newer settings. Raises ConfigError if they are invalid here."""
        settings = merged(self.base, self.settings, settings, is_strict=self.identity.is_strict)
        if settings == self.settings:
            return []
        self.in_force = in_force(self.base, settings)
        stays = settings.outlives == self.settings.outlives
        saves = [] if stays else [e.SaveLasting(settings.lasting)]
        drained = wanted_drain(self.settings, settings, self.identity.me)
        self.settings = settings
        self.table.set_params(self.in_force.lim, fade_s(self.in_force.load), settings.drains)
        self.reservations.clear()
        self._exchange_soon(now_s)
        said = {**settings.params, **settings.words}
        return [
            e.Configure(self.in_force),
            Log(f"{described(settings)} algorithm={self.in_force.lim.algorithm} params={said}"),
            *saves,
            *self._obey(settings, drained, now_s),
        ]

    def _obey(self, settings: m.Settings, drained: bool | None, now_s: float) -> list[Action]:
        """We were drained, or undrained, while away: do it now, and leave the list."""
        if drained is None or settings.counter >= m.COUNTER_MAX:
            return []
        done, actions = obeyed(settings, self.me), self._set_drained(drained, now_s)
        return [*actions, *self._adopt(done, now_s), *self._send_to_all(done, now_s)]

    def _tune(self, now_s: float) -> list[Action]:
        """As the centre, adapts the parameters to the load of all hosts."""
        params = as_set(self.base, self.settings).lim
        if not (params.adaptive or self.settings.tuned):
            return []
        vectors = [sample.vector for sample in self._load_sender.samples_alive(now_s)]
        found = self._tuner.tune(vectors, params, self.settings.tuned, now_s)
        if found is None:
            return []
        before, settings = self.in_force.lim, retuned(self.settings, self.me, found.params)
        adopted = self._adopt(settings, now_s)
        text = f"adaptive: {found.reason}: {changes(before, self.in_force.lim)}"
        return [Log(text), *adopted, *self._send_to_all(settings, now_s)]

    def _send_to_all(self, body: m.Body, now_s: float, alive: bool = False) -> list[Action]:
        return broadcast(self.table, self._load_sender.others(now_s, alive), body)

    def _compare_settings(self, sender: HostId, said: m.Delta, now_s: float) -> list[Action]:
        they_lack, we_lack = lacking(self.settings, said.settings_version, said.policy_version)
        told = [send(self.table, sender, self.settings)] if they_lack else []
        return [*told, *(self.membership.ask_members(sender, now_s) if we_lack else ())]

    # -- messages --------------------------------------------------------------------------------

    def _received(self, message: m.Message, now_s: float) -> list[Action]:
        sender, body = message.sender, message.body
        if message.cluster != self.identity.cluster:
            text = f"this is cluster {self.identity.cluster!r}, not {message.cluster!r}"
            return [e.Reply(m.Ack(error=text))]
        if isinstance(body, m.Ping):
            return [TAKEN]
        if isinstance(body, m.Hello) and body.self.name == sender:
            return self._hello(body, now_s)
        if not self.membership.knows(sender, message.incarnation, now_s):
            return [e.Reply(self.membership.unknown(sender))]
        actions: list[Action] = []
        match body:
            case m.Report() if body.sample.host == sender:
                self.table.record(body.sample, now_s)
                self.placer.centre_learnt(sender, body.ended)
                if self.placer.is_centre and not self.table.entries[sender].has_said_hello:
                    return [e.Reply(self.membership.unknown(sender))]
            case m.Probe():
                self.reservations.used(sender)
                return [e.Reply(m.ProbeReply(self.own_sample(now_s)))]
            case m.AskCentre() if body.sample.host == sender:
                return [e.Reply(self.placer.decide_for(sender, body, now_s))]
            case m.Reserve() if body.sample.host == sender:
                self.table.record(body.sample, now_s)
                taken = self.reservations.asked(sender)
                return [e.Reply(m.ReserveReply(taken, self.own_sample(now_s)))]
            case m.Unreserve():
                self.reservations.cancelled(sender)
            case m.Delta():
                return self._receive_delta(message, body, now_s)
            case m.Settings():
                actions = self._trying(lambda: self._adopt(body, now_s))
            case m.Drain():
                actions = self._set_drained(body.drained, now_s, f", as {sender} asks")
            case m.Leave() | m.Forget() if name := self.membership.gone(message, now_s):
                actions = self.left(name, now_s, body.for_good)
            case _:
                return [e.Reply(m.Ack(error=f"unexpected {type(body).__name__} from {sender}"))]
        return [TAKEN, *actions]

    def _skewed(self, name: HostId, why: str) -> list[Action]:
        """Logged once, and shown by `lbctl status` as long as it lasts."""
        return [Log(why, warning=True, peer=name)] if self.table.skewed(name, why) else []

    def _trying(self, body: Callable[[], list[Action]]) -> list[Action]:
        try:
            return body()
        except ConfigError as problem:
            return [Log(f"rejected settings from another host: {problem}", warning=True)]

    def _hello(self, hello: m.Hello, now_s: float) -> list[Action]:
        refusal, actions = self.membership.hello_from(hello, now_s)
        if refusal is not None:
            return [e.Reply(refusal)]
        # It does not know our load, and it may be a better centre.
        self._load_sender.reporter.again()
        self.reservations.forget(hello.self.name)
        self._next_housekeeping_s = self.next_due_s = now_s
        if self.placer.is_centre:  # so that it need not wait for the next keep-alive
            welcome = self._load_sender.welcome(hello.self.name, self.settings, now_s)
            actions = [*actions, welcome]
        elif hello.self.name == self.centre:  # it has no other host to ask
            self._exchange_soon(now_s)
        members = m.Members(told_of(self.table), self.settings) if hello.wants_members else m.Ack()
        return [e.Reply(members), *actions]

    def _receive_delta(self, message: m.Message, delta: m.Delta, now_s: float) -> list[Action]:
        sender = message.sender
        self._load_sender.election.heard(sender, now_s)
        actions = self._compare_settings(sender, delta, now_s)
        elected = self._elect_again(now_s)
        # Only the centre is trusted about other hosts' loads.
        known = self._replica.take(message, delta, sender == self.centre, now_s)
        if self._replica.has_strangers and not actions:
            actions = self.membership.ask_members(sender, now_s)
        return [e.Reply(m.Ack(known_version=known)), *actions, *elected]

    def left(self, name: HostId, now_s: float, for_good: bool = True) -> list[Action]:
        actions = self.membership.left(name, for_good)
        self._load_sender.forget(name)
        self.reservations.forget(name)
        return actions + self._elect_again(now_s)

    def _replied(self, event: e.Replied, now_s: float) -> list[Action]:
        """Handles the reply to a message. At an address without a name, anything may answer."""
        body, name, incarnation = event.reply.body, event.reply.sender, event.reply.incarnation
        if isinstance(body, m.Ack) and (body.error or body.unknown_sender):
            return self._refused(event, body, now_s)
        if isinstance(event.sent, m.Delta) and isinstance(body, m.Ack):
            self.acknowledged(name, incarnation, body.known_version, now_s)
            return []
        if event.to:
            self.membership.knows(name, incarnation, now_s)
        if isinstance(event.sent, m.Hello):
            self.membership.hello_answered(name, event.to)
            if event.to:
                self._load_sender.publication.introduced(name)
                self.reservations.used(name)  # it has removed ours
        if isinstance(body, m.ReserveReply) and body.sample.host == name:
            self.table.record(body.sample, now_s)
            self.reservations.answered(name, body)
        if not isinstance(body, m.Members):
            return []
        actions = self.membership.members_from(body.members, now_s)
        return actions + self._trying(lambda: self._adopt(body.settings, now_s))

    def acknowledged(self, name: HostId, incarnation: int, version: int, now_s: float) -> None:
        """The host says that it has all of that version of what we have published."""
        if self.membership.knows(name, incarnation, now_s):
            self._load_sender.publication.acknowledged(name, incarnation, version)

    def _refused(self, event: e.Replied, ack: m.Ack, now_s: float) -> list[Action]:
        """If we are unknown there, sends Hello (again), above the incarnation known there."""
        if ack.error:
            name, is_proved = event.reply.sender, self.identity.is_proved
            return self.membership.refused(name, ack, now_s, is_proved=is_proved)
        after_hello = isinstance(event.sent, m.Hello)
        higher, actions = self.membership.unknown_at(event.to, ack.known_incarnation, after_hello)
        if higher:
            self._publish(now_s)
        self._load_sender.reporter.again()
        return actions
