"""What this host says to the others each period, whatever the algorithm: `exchange` knows what is
news, `policy.view.Telling` for whom.

Under every algorithm each host reports to the centre as a keep-alive, and the centre sends all it
knows to everybody: so every host knows who is alive, whoever decides.
"""

from collections.abc import Iterable

from lbd.lim import messages as m
from lbd.lim.election import Election
from lbd.lim.events import Action, Broadcast, Send
from lbd.lim.exchange import Broadcaster, Reporter
from lbd.lim.reservations import Reservations
from lbd.lim.table import Table
from lbd.model import HostId, JobId
from lbd.policy.registry import POLICIES
from lbd.policy.view import Telling

IN_FLIGHT_MAX = 4  # messages to one host; what comes on top is dropped, newer news follows


def send(table: Table, name: HostId, body: m.Body) -> Send:
    return Send(name, table.entries[name].member.lim_target, body, timeout_s(table))


def broadcast(table: Table, names: Iterable[HostId], body: m.Body) -> list[Action]:
    to = tuple(names)
    return [Broadcast(to, body, timeout_s(table))] if to else []


def timeout_s(table: Table) -> float:
    return table.params.centre_silence_s / 3


def sends(table: Table, said: Broadcast) -> list[Send]:
    """What it means where no network broadcasts."""
    entries = table.entries
    return [
        Send(name, entries[name].member.lim_target, said.body, said.timeout_s) for name in said.to
    ]


class Teller:
    def __init__(self, table: Table, election: Election, reservations: Reservations) -> None:
        self.reporter = Reporter()
        self.broadcaster = Broadcaster()
        self._table = table
        self._election = election
        self._reservations = reservations

    def exchange(
        self,
        centre: HostId | None,
        settings_version: tuple[int, str],
        ended: tuple[JobId, ...],
        now_s: float,
    ) -> list[Action]:
        """This period's messages. `ended`: jobs whose end the centre should know of."""
        table, lim = self._table, self._table.params
        telling = POLICIES[lim.algorithm].telling
        own = table.own_sample(now_s)
        actions: list[Action] = []
        news = self.reporter.has_news(own, lim, telling.of_changes)
        due = news or self.reporter.was_silent(now_s, lim)
        if due or ended:
            to = self._audience(centre, news and telling is Telling.EVERYBODY, now_s)
            if due and to:
                self.reporter.has_told(own, now_s)
            actions += broadcast(table, to, m.Report(own, ended))
        if centre == table.me:
            actions += self._broadcast(settings_version, telling is Telling.VECTOR, now_s)
        if telling is Telling.RESERVATIONS:
            said = self._reservations.exchange(own, now_s)
            actions += [send(table, name, body) for name, body in said]
        return actions

    def _audience(self, centre: HostId | None, everybody: bool, now_s: float) -> list[HostId]:
        """Whom a report goes to: whoever acts as a centre, or a change everybody under DISTED."""
        table = self._table
        if everybody:
            return sorted(self.others(now_s, alive=True))
        centres = self._election.heard_lately(now_s, table.params.centre_silence_s)
        if centre is not None:
            centres.add(centre)
        centres.discard(table.me)
        return sorted(name for name in centres if name in table.entries) if centres else []

    def _broadcast(
        self, settings_version: tuple[int, str], changes: bool, now_s: float
    ) -> list[Action]:
        due = self.broadcaster.due(self._alive(now_s), now_s, self._table.params, changes)
        if due is None:
            return []
        news, full = due
        vector = m.Vector(tuple(self._of_now(news, now_s)), settings_version)
        # Hosts that are down hear of the full vectors only, in case they are back.
        return broadcast(self._table, self.others(now_s, alive=not full), vector)

    def samples_alive(self, now_s: float) -> list[m.Sample]:
        """The newest sample of each host that is not down."""
        return self._of_now(self._alive(now_s), now_s)

    def _alive(self, now_s: float) -> list[m.Sample]:
        """The same, their ages as when they came."""
        down_after_s = self._table.params.down_after_s
        return [
            entry.sample
            for entry in self._table.entries.values()
            if entry.sample is not None
            and not entry.left
            and now_s < entry.sampled_at_s + down_after_s
        ]

    def _of_now(self, samples: Iterable[m.Sample], now_s: float) -> list[m.Sample]:
        aged = (self._table.sample_of(sample.host, now_s) for sample in samples)
        return [sample for sample in aged if sample is not None]

    def others(self, now_s: float, alive: bool) -> list[HostId]:
        table = self._table
        if alive:
            return table.others_alive(now_s)
        entries = table.entries.items()
        return [name for name, entry in entries if name != table.me and not entry.left]
