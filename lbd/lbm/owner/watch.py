"""Watches for the owner of this host, and treats foreign commands as the rules then demand.

Signs of a person at the machine: terminals, keyboards, pointers, and load.
"""

import asyncio
import functools
import json
import logging
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lbd.keeper.gate import find_account
from lbd.keeper.limits.time_limits import group_cpu_s
from lbd.keeper.stdin_watch import members
from lbd.lbm.core.execution_events import Kind, Treatment
from lbd.lbm.core.owner_book import OwnerBook, Standing, Verdict
from lbd.lbm.core.owner_presence import Presence, Seen
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.executions import Live
from lbd.load import process_table, procfs
from lbd.load.input_devices import InputDevices
from lbd.load.procfs import read_small
from lbd.local.caller import person_of
from lbd.local.rate_limit import Rates
from lbd.model import HostId, JobId
from lbd.process.boot_clock import time_of_day
from lbd.process.whole_file import write_whole

log = logging.getLogger("lbd.lbm")

WATCH_S = 1.0
SAVE_EVERY_S = 300.0  # the record
FILE_BYTES_MAX = 1 << 18
AT_INPUT = "a keyboard or mouse"
OWNER_LINES = Rates(1.0, 100.0)  # logged: a load or a terminal may come and go each second
TYPED_MEANWHILE_S = 1.0
NOBODY, INIT = 0, 1
IsForeign = Callable[[os.stat_result], bool]


class Signs:
    """Signs of the owner. Foreign commands do not count; they are known by their root processes."""

    def __init__(self) -> None:
        self._inputs = InputDevices()
        self._roots: dict[JobId, tuple[int, str]] = {}
        self._cpu_s: dict[JobId, float] = {}  # what has been counted of each
        self._rest_s = 0.0  # what those have used since that have ended
        self._own_cpu_s = 0.0  # by the last look; the LBM's work is for the commands
        # the CPU time of all processes until the last look, and when that was; time used before the
        # first look was for starting the daemons
        self._busy: tuple[float, float] | None = None

    @property
    def has_jobs(self) -> bool:
        return bool(self._roots)

    def job_began(self, job: JobId, pid: int, group: str) -> None:
        self._roots[job] = pid, group

    def job_ended(self, job: JobId, cpu_s: float) -> None:
        counted_s = self._cpu_s.pop(job, 0.0)
        if self._roots.pop(job, None) is not None:
            self._rest_s += max(0.0, cpu_s - counted_s)

    def close(self) -> None:
        self._inputs.close()

    def see(self, owners: tuple[str, ...], *, input_too: bool) -> Seen:
        """`owners`: whose terminals count; everybody's if empty."""
        uids = {account.uid for name in owners if (account := find_account(name)) is not None}
        whose = uids if owners else None
        terminal, used_s = last_used(whose, self._foreign(), time.time() + TYPED_MEANWHILE_S)
        now_s = time.time()
        if input_too and (typed_s := self._inputs.look(now_s)) > used_s:
            terminal, used_s = AT_INPUT, typed_s
        idle_s = None if not terminal else max(0.0, now_s - used_s)
        return Seen(idle_s, terminal, self._others_load())

    def _foreign(self) -> IsForeign:
        """Returns a test for terminals that foreign commands have made for themselves, in which the
        owner types nothing. A user who has commands here may have terminals of both kinds: the
        owner's has a process that is not below our keeper."""
        pids = [pid for pid, _ in self._roots.values()]
        roots = [task for task in map(process_table.task_of, pids) if task is not None]
        given = {task.terminal for task in roots}
        users = {person_of(process_table.uid_of(pid)) for pid in pids}

        @functools.cache
        def used_elsewhere() -> set[int]:
            everybody = process_table.everybody()
            keepers = {task.parent for task in roots} - {NOBODY, INIT}
            foreign = process_table.with_descendants(keepers, everybody)
            return {task.terminal for pid, task in everybody.items() if pid not in foreign}

        def is_foreign(terminal: os.stat_result) -> bool:
            if terminal.st_rdev in given:
                return True
            return person_of(terminal.st_uid) in users and terminal.st_rdev not in used_elsewhere()

        return is_foreign

    def _others_load(self) -> float:
        """Cores kept busy since the last look; 0 at the first one."""
        now_s, busy = time.monotonic(), procfs.machine_cpu_s()
        own_s = time.process_time()
        foreign_s = self._rest_s + own_s - self._own_cpu_s
        self._rest_s, self._own_cpu_s = 0.0, own_s
        for job, (pid, group) in self._roots.items():
            cpu_s, counted_s = cpu_s_of(pid, group), self._cpu_s.get(job, 0.0)
            foreign_s += max(0.0, cpu_s - counted_s)
            self._cpu_s[job] = max(cpu_s, counted_s)
        before_s, then_s = self._busy or (busy, now_s)
        self._busy = busy, now_s
        return max(0.0, busy - before_s - foreign_s) / max(0.01, now_s - then_s)


def last_used(uids: set[int] | None, is_foreign: IsForeign, until_s: float) -> tuple[str, float]:
    """Returns the terminal that was read last and when (UNIX time); "" if there is none. `uids`:
    whose terminals count. A time after `until_s` is no sign: anyone with a terminal can set it."""
    found = "", 0.0
    places = [("/dev/pts/", "pts/"), ("/dev/", "")]
    for directory, shown in places:
        with suppress(OSError):
            for name in os.listdir(directory):
                number = name if shown else name.removeprefix("tty")
                if not number.isdecimal() or (number == "0" and not shown):
                    continue
                with suppress(OSError):
                    status = os.stat(directory + name)
                    theirs = uids is None or status.st_uid in uids
                    is_later = found[1] < status.st_atime <= until_s
                    if theirs and is_later and not is_foreign(status):
                        found = shown + name, status.st_atime
    return found


def cpu_s_of(pid: int, group: str) -> float:
    """Roughly the CPU time that a job has used so far."""
    counted_s = group_cpu_s(group)
    if counted_s is not None:
        return counted_s
    tasks = (process_table.task_of(member) for member in members(pid, group))
    return sum(task.cpu_ticks for task in tasks if task is not None) / procfs.TICKS_PER_S


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
