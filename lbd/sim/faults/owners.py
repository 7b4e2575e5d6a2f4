"""Owners of simulated hosts, who come and go, and what their rules do with what runs there.

Half of the runs evict at once. In the others each host decides for every command whether it waits
or is moved, from its owner book, which outlives the LBM as the file does.
"""

import json
from collections.abc import Callable, Mapping
from random import Random

from lbd.config.access import DECIDE_BY, AdmissionConfig
from lbd.lbm.core import execution_events as x
from lbd.lbm.core.execution import Execution
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.core.owner_book import OwnerBook, Standing
from lbd.model import HostId, JobId
from lbd.sim.faults.host import Host, room_of

LOOK_S = 0.5  # also the length of a step
TIMER_S = 1.0
BACK = "its owner is back"


class Owners:
    def __init__(
        self,
        hosts: Mapping[HostId, Host],
        now_s: Callable[[], float],
        log: Callable[[str], None],
        rng: Random,
        *,
        decide: bool,
    ) -> None:
        self._hosts, self._now_s, self._log, self._rng = hosts, now_s, log, rng
        self._here: set[HostId] = set()
        self._books = {name: OwnerBook(name, LOOK_S) for name in hosts}
        self._rules = AdmissionConfig(
            owner_idle_s=1.0,
            owner_is_back="decide" if decide else "evict",
            decide_by=rng.choice(DECIDE_BY),
            decide_after_s=TIMER_S,
        )

    @property
    def rule(self) -> str:
        return self._rules.owner_is_back

    def comes(self, name: HostId) -> None:
        self._here.add(name)
        self._hosts[name].owner_is(BACK)

    def goes(self, name: HostId) -> None:
        self._here.discard(name)
        self._hosts[name].owner_is("")

    def all_go(self) -> None:
        for name in list(self._here):
            self.goes(name)

    def lbm_restarted(self, name: HostId) -> None:
        """Reads the owner book back from its file."""
        stored = json.loads(json.dumps(self._books[name].to_json(self._now_s())))
        book = self._books[name] = OwnerBook(name, LOOK_S)
        book.read(stored, self._now_s())

    def look(self) -> None:
        """Does what the LBM of each host does once a second."""
        away = {name: name not in self._here for name in self._hosts}
        for name, host in self._hosts.items():
            if host.is_paused:
                continue
            host.lbm.owner_back = "" if away[name] else BACK  # a new LBM sees this at once
            others_free = any(away[other] for other in away if other != name)
            book = self._books[name]
            step = book.look(not away[name], self._now_s(), hour=0)
            room = {other: room_of(self._hosts[other]) for other in away if away[other]}
            facts = {other: self._hosts[other].lbm.line.slots.pool.facts() for other in room}
            book.cluster_is(away, others_free, self._rng, step=step, room=room, facts=facts)
            for job, execution in list(host.executions.items()):
                tree = host.keeper.alive.get(job)
                if tree is None or execution.process is None:
                    continue
                untouched = tree.is_queued or not tree.is_touched
                wanted, reason = self._wanted(name, job, execution, untouched=untouched)
                if wanted is Treatment.GO or (wanted, reason) != (
                    execution.treatment,
                    execution.still_reason,
                ):
                    host.handle(job, x.OwnerWants(wanted, untouched, reason))

    def _wanted(
        self, name: HostId, job: JobId, execution: Execution, *, untouched: bool
    ) -> tuple[Treatment, str]:
        if name not in self._here:
            return Treatment.NONE, ""
        if self._rules.owner_is_back == "evict":
            return Treatment.GO, BACK
        now_s = self._now_s()
        cost_s = execution.ran_s(self._hosts[name].now_s)
        gang = self._hosts[name].lbm.gang_hosts.get(job, ())
        is_movable = untouched and (execution.spec.is_evictable or bool(gang))
        needs = execution.spec.needs
        standing = Standing(job, cost_s, is_movable, gang, needs=needs)
        verdict = self._books[name].verdict(standing, self._rules, now_s, 0, clock)
        if verdict.goes:
            self._log(f"{name}: {job} is moved: {verdict.reason}")
        return Treatment.GO if verdict.goes else Treatment.STILL, verdict.reason


def clock(unix_s: float) -> str:
    return f"{unix_s:.1f} s"
