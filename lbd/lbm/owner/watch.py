"""Watching for the owner of this host, and doing with foreign commands what the rules say then."""

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

from lbd.lbm.core.owner_book import OwnerBook, Standing, Verdict
from lbd.lbm.core.owner_presence import Presence, Seen, Treatment
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.executions import Live
from lbd.lbm.owner.book_file import BookFile
from lbd.lbm.owner.rules import time_of_day
from lbd.lbm.owner.signs import Signs
from lbd.model import HostId, JobId

WATCH_S = 1.0


class Owner:
    """`changed`: the owner has come or gone."""

    def __init__(self, host: InboundContext, changed: Callable[[], None]) -> None:
        self._host = host
        self._changed = changed
        config = host.config
        self._presence = Presence(config.admission)
        self.book = OwnerBook(HostId(config.host.name), config.admission.owner_step_s)
        self._file = BookFile(Path(config.host.state_dir) / "owner.json", self.book)
        self._rng = random.Random()
        self._signs = Signs()
        self._wanted = asyncio.Event()

    def job_began(self, job: JobId, pid: int, group: str) -> None:
        self._signs.job_began(job, pid, group)
        self._wanted.set()

    def job_ended(self, job: JobId) -> None:
        self._signs.job_ended(job)
        self.book.gone(job)

    def look_again(self) -> None:
        """The rules have changed."""
        self._wanted.set()

    async def watch(self) -> None:
        """An idle host whose rules do not ask for it is not looked at every second."""
        try:
            while True:
                self.look()
                await self._file.save(time.time())
                if not (self._presence.is_watched or self._presence.why or self._signs.has_jobs):
                    self._wanted.clear()
                    await self._wanted.wait()
                await asyncio.sleep(WATCH_S)
        finally:
            self._signs.close()
            self._file.write(time.time())

    def look(self) -> None:
        admission = self._host.rules.config.admission
        self._presence.change(admission)
        seen = Seen(None, "", 0.0)
        if self._presence.is_watched:
            input_too = self._presence.asks_for_input
            seen = self._signs.see(admission.owners, input_too=input_too)
        now_s = time.monotonic()
        self._presence.tick(seen, now_s)
        self._note()
        if bool(self._presence.why) != bool(self._host.rules.owner):
            self._changed()
        self._host.rules.owner = self._presence.why
        self._host.rules.owner_state = state_of(self.book.is_here)
        treatment = self._presence.treatment(now_s)
        decides = treatment is Treatment.STILL and admission.owner_is_back == "decide"
        back = self.book.back(time_of_day) if treatment.is_still else ""
        for live in self._host.executions:
            if not (treatment.is_still and live.is_running):
                live.owner_wants(treatment)
            elif decides:
                verdict = self._verdict(live)
                wanted = Treatment.GO if verdict.goes else Treatment.STILL
                live.owner_wants(wanted, verdict.reason)
            else:
                goes = treatment is Treatment.GO
                self.book.stands(standing(live), time.time(), moved=goes)
                live.owner_wants(treatment, back)

    def _note(self) -> None:
        """In the book, step by step."""
        if not self._presence.is_watched:
            self.book.unwatched()
            return
        now_s = time.time()
        step = self.book.look(bool(self._presence.why), now_s, hour_of_week(now_s))
        away, others_free, room, facts = self._host.rules.cluster
        self.book.cluster_is(away, others_free, self._rng, step=step, room=room, facts=facts)

    def _verdict(self, live: Live) -> Verdict:
        now_s, admission = time.time(), self._host.rules.config.admission
        hour = hour_of_week(now_s)
        return self.book.verdict(standing(live), admission, now_s, hour, time_of_day)


def standing(live: Live) -> Standing:
    gang, slots, needs = live.gang_hosts, live.slots, live.needs
    excluded = frozenset(map(HostId, live.request.excluded))
    return Standing(live.id, live.moving_cost_s, live.is_movable, gang, slots, needs, excluded)


def state_of(is_here: bool | None) -> str:
    """As `lbctl status` shows it."""
    return "" if is_here is None else "here" if is_here else "away"


def hour_of_week(unix_s: float) -> int:
    local = time.localtime(unix_s)
    return 24 * local.tm_wday + local.tm_hour
