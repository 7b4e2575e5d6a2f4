"""Watches for the owner of this host, and treats foreign commands as the rules then demand."""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path

from lbd.lbm.core.execution_events import Kind, Treatment
from lbd.lbm.core.owner_book import OwnerBook, Standing, Verdict
from lbd.lbm.core.owner_presence import Presence, Seen
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.executions import Live
from lbd.lbm.owner.signs import Signs
from lbd.load.procfs import read_small
from lbd.local.rate_limit import Rates
from lbd.model import HostId, JobId
from lbd.process.boot_clock import time_of_day
from lbd.process.whole_file import write_whole

log = logging.getLogger("lbd.lbm")

WATCH_S = 1.0
SAVE_EVERY_S = 300.0  # the record
FILE_BYTES_MAX = 1 << 18
OWNER_LINES = Rates(1.0, 100.0)  # logged: a load or a terminal may come and go each second


class BookFile:
    """The book on disk, kept across restarts. A damaged file is reported once and replaced."""

    def __init__(self, path: Path, book: OwnerBook) -> None:
        self._path, self._book = path, book
        self._saved_s: float | None = None
        self._trouble = ""
        try:
            data = read_small(str(path), FILE_BYTES_MAX)
            book.read(json.loads(data), time.time())
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as problem:
            log.warning("%s: %s; starting again with an empty record", path, str(problem)[:200])

    async def save(self, now_s: float) -> None:
        """Saves the book at intervals."""
        if self._saved_s is None:
            self._saved_s = now_s
        if not 0 <= now_s - self._saved_s < SAVE_EVERY_S and self._book.is_here is not None:
            self._saved_s = now_s
            await asyncio.to_thread(self._write, self._data(now_s))

    def write(self, now_s: float) -> None:
        if self._book.is_here is not None:
            self._write(self._data(now_s))

    def _data(self, now_s: float) -> bytes:
        return json.dumps(self._book.to_json(now_s), separators=(",", ":")).encode()

    def _write(self, data: bytes) -> None:
        """Writes the file whole or not at all. Only its daemon may read when a person is here."""
        try:
            write_whole(self._path, data, 0o600)
            self._trouble = ""
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("cannot save the owner's record: %s", text)
            self._trouble = text


class Owner:
    """Watches the owner. `changed` is called when the owner has come or left."""

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

    def job_ended(self, job: JobId, cpu_s: float) -> None:
        self._signs.job_ended(job, cpu_s)
        self.book.gone(job)

    def look_again(self) -> None:
        """Looks again, because the rules have changed."""
        self._wanted.set()

    async def watch(self) -> None:
        """Looks every second, but not on an idle host whose rules do not depend on the owner."""
        try:
            while True:
                self.look()
                await self._signs.look_elsewhere()
                await self._file.save(time.time())
                if self._presence.is_watched or self._presence.why or self._signs.has_jobs:
                    await asyncio.sleep(WATCH_S)
                else:
                    self._wanted.clear()
                    await self._wanted.wait()
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
            say_owner(self._presence.why)
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
        """Notes the look in the book, step by step."""
        if not self._presence.is_watched:
            self._file.write(time.time())  # what has been learnt since it was last saved
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


def say_owner(why: str) -> None:
    """`why`: what shows that the owner is here, or ""."""
    if OWNER_LINES.turn_s("", time.monotonic(), 0.0) is not None:
        log.info("%s", f"the owner is back: {why}" if why else "the owner is away")


def standing(live: Live) -> Standing:
    gang, slots, needs = live.gang_hosts, live.slots, live.needs
    excluded = set(map(HostId, live.request.excluded))
    if live.execution.spec.kind is Kind.ATTACHED:  # it never returns to where it was typed
        excluded.add(HostId(live.request.origin))
    cost_s, is_movable = live.moving_cost_s, live.is_movable
    is_fixed = not (live.execution.spec.is_evictable or gang)
    return Standing(live.id, cost_s, is_movable, gang, slots, needs, frozenset(excluded), is_fixed)


def state_of(is_here: bool | None) -> str:
    """The owner's state in `lbctl status`."""
    return "" if is_here is None else "here" if is_here else "away"


def hour_of_week(unix_s: float) -> int:
    local = time.localtime(unix_s)
    return 24 * local.tm_wday + local.tm_hour
