"""What this host sends to the others each period, whatever the algorithm: `exchange` decides what
is worth sending, `policy.view.Reporting` to whom.

Under every algorithm each host reports to the centre as a keep-alive, and the centre sends each
host the updates it lacks (`publication`), so all hosts know which are alive.
"""

from collections.abc import Iterable

from lbd.lim.core import messages as m
from lbd.lim.core.election import Election
from lbd.lim.core.events import Action, Broadcast, Send
from lbd.lim.core.exchange import Reporter
from lbd.lim.core.publication import Publication
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.silence import Silence
from lbd.lim.core.table import Table
from lbd.model import HostId, JobId
from lbd.policy.registry import POLICIES
from lbd.policy.view import Reporting

IN_FLIGHT_MAX = 4  # messages to one host; more are dropped, since newer updates follow


def send(table: Table, name: HostId, body: m.Body) -> Send:
    return Send(name, table.entries[name].member.lim_target, body, timeout_s(table))


def broadcast(table: Table, names: Iterable[HostId], body: m.Body) -> list[Action]:
    to = tuple(names)
    return [Broadcast(to, body, timeout_s(table))] if to else []


def timeout_s(table: Table) -> float:
    return table.params.centre_silence_s / 3


def sends(table: Table, said: Broadcast) -> list[Send]:
    """Returns the single messages that a broadcast amounts to without multicast."""
    entries = table.entries
    return [
        Send(name, entries[name].member.lim_target, said.body, said.timeout_s) for name in said.to
    ]


class LoadSender:
    def __init__(self, table: Table, election: Election, reservations: Reservations) -> None:
        self.reporter = Reporter()
        self.publication = Publication()
        self._table = table
        self.election = election
        self.silence = Silence(table)
        self._reservations = reservations

    def restart(self) -> None:
        """We have just become the centre."""
        self.publication.restart()

    def forget(self, name: HostId) -> None:
        self.election.forget(name)
        self.publication.forget(name)

    def exchange(
        self,
        centre: HostId | None,
        settings: m.Settings,
        ended: tuple[JobId, ...],
        now_s: float,
    ) -> list[Action]:
        """Returns this period's messages. `ended`: jobs whose end the centre should know."""
        table, lim = self._table, self._table.params
        reporting = POLICIES[lim.algorithm].reporting
        actions: list[Action] = []
        mine = table.mine.sample
        news = mine is None or self.reporter.has_changed(mine, lim, reporting.of_changes)
        due = news or self.reporter.was_silent(now_s, lim)
        if due or ended:
            own = table.own_sample(now_s)
            to = self._audience(centre, news and reporting is Reporting.EVERYBODY, now_s)
            if due and to:
                self.reporter.has_reported(own, now_s)
            actions += broadcast(table, to, m.Report(own, ended))
        if centre == table.me:
            actions += self._publish(settings, reporting is Reporting.VECTOR, now_s)
        if reporting is Reporting.RESERVATIONS:
            said = self._reservations.exchange(table.own_sample(now_s), now_s)
            actions += [send(table, name, body) for name, body in said]
        return actions

    def _audience(self, centre: HostId | None, everybody: bool, now_s: float) -> list[HostId]:
        """Returns who gets a report: the acting centres; under DISTED, for a change, every host
        that is up as well. A host that has just been started knows of none."""
        table = self._table
        names = self.election.heard_lately(now_s, table.params.centre_silence_s)
        if centre is not None:
            names.add(centre)
        names = {name for name in names if name in table.entries}
        if everybody:
            names.update(self.others(now_s, alive=True))
        names.discard(table.me)
        return sorted(names)

    def _publish(self, settings: m.Settings, changes: bool, now_s: float) -> list[Action]:
        table, publication = self._table, self.publication
        refreshes = publication.is_due(now_s, table.params)
        publication.observe(table.entries, now_s, table.params, changes, refreshes)
        alive = dict.fromkeys(self.others(now_s, alive=True))
        peers = [table.entries[name].member for name in alive]
        down = [name for name in self.others(now_s, alive=False) if name not in alive]
        groups = publication.deltas(peers, down, refreshes, settings, now_s, table.params)
        return [action for names, delta in groups for action in broadcast(table, names, delta)]

    def welcome(self, name: HostId, settings: m.Settings, now_s: float) -> Send:
        """As the centre, sends the loads to a host that has just said Hello, so that it need not
        wait for the next period."""
        table, member = self._table, self._table.entries[name].member
        changes = POLICIES[table.params.algorithm].reporting is Reporting.VECTOR
        self.publication.observe(table.entries, now_s, table.params, changes, refreshes=False)
        self.publication.welcome(member, now_s)
        return send(table, name, self.publication.delta(0, settings, now_s))

    def samples_alive(self, now_s: float) -> list[m.Sample]:
        """Returns the newest sample of each host that is not down, with its age as of arrival."""
        down_after_s = self._table.params.down_after_s
        return [
            entry.sample
            for entry in self._table.entries.values()
            if entry.sample is not None
            and not entry.left
            and now_s < entry.sampled_at_s + down_after_s
        ]

    def others(self, now_s: float, alive: bool) -> list[HostId]:
        table = self._table
        if alive:
            return table.others_alive(now_s)
        entries = table.entries.items()
        return [name for name, entry in entries if name != table.me and not entry.left]
