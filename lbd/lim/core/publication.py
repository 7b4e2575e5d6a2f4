"""What the centre has published about every host, and which part of it each host lacks.

Sending whole vectors every keep-alive costs each host bytes that grow with the number of hosts, and
the centre bytes that grow with its square. So each host's line here has the version at which it
last changed, and a host is sent the lines changed since the version that it acknowledged in its
last reply. Hosts with the same version, usually all of them, are sent the same delta, which is
encoded once.

A host that is not mentioned is unchanged and alive, as in SWIM. The centre is the first to suspect
a host, when it misses one keep-alive. The centre reports that once, and from then on no host counts
it among those confirmed, so it becomes late and then down everywhere as its last sample ages.
Changes too small for a report are published with the next sign of life.

Lost messages are sent again, since they were not acknowledged. Each delta carries a digest: a host
whose own differs acknowledges nothing, and is sent everything, as a newcomer is. That happens at
most once a keep-alive, and after each Hello of ours that it answers, which are bounded, whatever a
host claims to have; a version that never existed counts as none.

Rejected: gossip among the hosts (only the centre is trusted about other hosts' loads), and a stream
to each host (a lost delta costs nothing, a stream has to be maintained). Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.digest import mark_of
from lbd.lim.core.exchange import worth_reporting
from lbd.lim.core.signed import policy_version
from lbd.lim.core.table import NEVER, Entry, aged
from lbd.model import HostId

HEARTBEATS_PER_SILENCE = 3  # an idle centre is heard this often within `centre_silence_s`
UTILISATION_STEP = 0.1  # a change of the displayed utilisation that is published again
SAMPLED_S = 1.0  # between two samples
LATE_SHARE = 0.75
# parts of the total memory in which changes of the available memory are published
MEMORY_STEPS = 16


@dataclass(slots=True)
class Line:
    """One host's line as published."""

    slot: int
    seen: m.Sample  # the newest sample that was compared with the published one
    sample: m.Sample
    sampled_at_s: float
    version: int  # at its last change
    whole_version: int  # at its last change in what a load line omits
    silent: bool
    mark: int  # its share of the digest


def lasting(sample: m.Sample) -> tuple[object, ...]:
    """Returns everything that a load line omits, and that its reader takes from the previous
    line."""
    vector = sample.vector
    return (
        sample.incarnation, sample.drained, sample.more, vector.cores, vector.speed,
        vector.slots_total, vector.accepting, vector.hog, vector.site, vector.owner,
        vector.memory_total, vector.facts, vector.closed, vector.opens,
    )  # fmt: skip


def worth_refreshing(new: m.Sample, old: m.Sample, params: LimConfig) -> bool:
    """Whether a sign of life should repeat the load, although the change is too small to report."""
    if abs(new.vector.index - old.vector.index) > params.change_threshold / 2:
        return True
    if abs(new.vector.utilisation - old.vector.utilisation) > UTILISATION_STEP:
        return True
    used = abs(new.vector.memory_available - old.vector.memory_available)
    if used * MEMORY_STEPS > new.vector.memory_total:
        return True
    jobs = new.vector.slots_used, new.vector.jobs_local, new.vector.jobs_foreign
    if jobs != (old.vector.slots_used, old.vector.jobs_local, old.vector.jobs_foreign):
        return True
    return lasting(new) != lasting(old)


def silent_after_s(params: LimConfig) -> float:
    """Returns the age of a sample at which its host has missed a report: the report is due at a
    period, is sent within it, and carries an earlier sample. This is before the host is late."""
    due_s = params.keepalive_s + 2 * params.exchange_period_s + SAMPLED_S
    return min(due_s, LATE_SHARE * params.stale_after_s)


class Publication:
    def __init__(self) -> None:
        self.version = 0
        self.digest = 0
        self._lines: dict[HostId, Line] = {}  # most recently changed last
        self._gone: dict[int, int] = {}  # free slots, and the version at which they became free
        self._has: dict[HostId, tuple[int, int]] = {}  # each host's incarnation and version
        # When each host was last sent everything or, if it was down, a sign of life.
        self._whole_at_s: dict[HostId, float] = {}
        self._fresh_age_s: float | None = None
        self._refreshed_at_s = NEVER

    def restart(self) -> None:
        """We have just become the centre: start with everything, at once."""
        self._has.clear()
        self._whole_at_s.clear()
        self._refreshed_at_s = NEVER

    def is_due(self, now_s: float, params: LimConfig) -> bool:
        """Whether a sign of life is due."""
        heartbeat_s = min(params.keepalive_s, params.centre_silence_s / HEARTBEATS_PER_SILENCE)
        return now_s - self._refreshed_at_s >= heartbeat_s

    # -- what is published -----------------------------------------------------------------------

    def observe(
        self, entries: Mapping[HostId, Entry], now_s: float, params: LimConfig,
        exchanges_load: bool, refreshes: bool,
    ) -> None:  # fmt: skip
        """Publishes what has changed; with `refreshes`, for a sign of life, also smaller
        differences."""
        if refreshes:
            self._refreshed_at_s = now_s
        confirms = exchanges_load or refreshes
        version, silent_s = self.version + 1, silent_after_s(params)
        oldest_s, lines = 0.0, self._lines
        for name, entry in entries.items():
            line, sample = lines.get(name), entry.sample
            age_s = now_s - entry.sampled_at_s
            if sample is None or entry.left or age_s >= params.down_after_s:
                if line is not None:
                    self._drop(name, version)
                continue
            silent = age_s > silent_s if confirms or line is None else line.silent
            if not silent and age_s > oldest_s:
                oldest_s = age_s
            if line is not None and silent == line.silent:
                if sample is line.seen and not refreshes:
                    continue
                line.seen = sample
                if not (
                    worth_reporting(sample, line.sample, params, exchanges_load)
                    or (refreshes and worth_refreshing(sample, line.sample, params))
                ):
                    continue
            self._publish(name, sample, entry.sampled_at_s, silent, version)
        for name in lines.keys() - entries.keys():
            self._drop(name, version)
            self.forget(name)
        self._fresh_age_s = oldest_s if confirms else None

    def _publish(
        self, name: HostId, sample: m.Sample, sampled_at_s: float, silent: bool, version: int
    ) -> None:
        line = self._lines.pop(name, None)
        if line is None:
            slot = self._gone.popitem()[0] if self._gone else len(self._lines)
            whole_version = version
        else:
            slot, whole_version = line.slot, line.whole_version
            if lasting(sample) != lasting(line.sample):
                whole_version = version
            self.digest ^= line.mark
        mark = mark_of(slot, sample, silent)
        self.digest ^= mark
        self.version = version
        self._lines[name] = Line(
            slot, sample, sample, sampled_at_s, version, whole_version, silent, mark
        )

    def _drop(self, name: HostId, version: int) -> None:
        line = self._lines.pop(name)
        self.digest ^= line.mark
        self._gone[line.slot] = self.version = version

    # -- what hosts have of it -------------------------------------------------------------------

    def acknowledged(self, name: HostId, incarnation: int, version: int) -> None:
        """A host says that it has all of that version, which may never have existed."""
        self._has[name] = incarnation, version if version <= self.version else 0

    def introduced(self, name: HostId) -> None:
        """The host knows us from now on; everything sent to it before may have been refused."""
        self._whole_at_s.pop(name, None)

    def forget(self, name: HostId) -> None:
        self._has.pop(name, None)
        self._whole_at_s.pop(name, None)

    def deltas(
        self, peers: Iterable[m.Member], down: Iterable[HostId], refreshes: bool,
        settings: m.Settings, now_s: float, params: LimConfig,
    ) -> list[tuple[list[HostId], m.Delta]]:  # fmt: skip
        """Returns what to send to which hosts in this period. Hosts that are `down` only get a sign
        of life, once a keep-alive, in case they are back. With `refreshes` all others get at least
        one."""
        groups: dict[int, list[HostId]] = defaultdict(list)
        version, has = self.version, self._has
        for peer in peers:
            name = peer.name
            incarnation, since = has.get(name, (0, 0))
            if not since or incarnation != peer.incarnation:
                since = version if self._was_sent_whole(name, now_s, params) else 0
            if refreshes or since < version:
                groups[since].append(name)
        for name in down:
            if not self._was_sent_whole(name, now_s, params):
                groups[version].append(name)
        return [(names, self.delta(since, settings, now_s)) for since, names in groups.items()]

    def _was_sent_whole(self, name: HostId, now_s: float, params: LimConfig) -> bool:
        """Whether the host was sent everything, or a sign of life, in the last keep-alive period;
        if not, it is sent that now."""
        if now_s - self._whole_at_s.get(name, NEVER) < params.keepalive_s:
            return True
        self._whole_at_s[name] = now_s
        return False

    def welcome(self, peer: m.Member, now_s: float) -> None:
        """The host has just said Hello, and is sent everything."""
        self._has.pop(peer.name, None)
        self._whole_at_s[peer.name] = now_s

    def delta(self, since: int, settings: m.Settings, now_s: float) -> m.Delta:
        whole: list[tuple[int, m.Sample]] = []
        loads: list[m.HostLoad] = []
        silent: list[int] = []
        for line in reversed(self._lines.values()):
            if line.version <= since:
                break
            age_s = max(0.0, now_s - line.sampled_at_s)
            if line.whole_version > since:
                whole.append((line.slot, aged(line.sample, age_s)))
            else:
                loads.append(load_of(line, age_s))
            if line.silent:
                silent.append(line.slot)
        gone = (slot for slot, at in self._gone.items() if at > since) if since else ()
        return m.Delta(
            since, self.version, self.digest, settings.version, tuple(whole), tuple(loads),
            tuple(silent), tuple(gone), self._fresh_age_s, policy_version(settings),
        )  # fmt: skip


def load_of(line: Line, age_s: float) -> m.HostLoad:
    sample, vector = line.sample, line.sample.vector
    return m.HostLoad(
        line.slot, sample.number, age_s, vector.index, vector.queues, vector.utilisation,
        vector.slots_used, vector.jobs_local, vector.jobs_foreign, vector.memory_available,
    )  # fmt: skip
