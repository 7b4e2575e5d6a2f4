"""The shell of `learnt_commands.Book`: keeps it on disk, asks it, answers `lbctl` and `lbsh`.

A user's lists are sent by the user's own programs, over the socket whose other end the kernel
vouches for: a daemon that is root must not read files that users may point anywhere.
"""

import asyncio
import json
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from lbd.config.schema import Config
from lbd.lbm.core.learnt_commands import Book, UserBook, generation_of, read_lists
from lbd.lbm.owner.accounts import user_name
from lbd.local.caller import range_owner
from lbd.local.json_socket import Json, Refusal
from lbd.local.rate_limit import Rates
from lbd.model import Needs
from lbd.policy.eligibility import Known, Lists, Verdict, fault_of_patterns
from lbd.policy.invocation import key_of, name_of
from lbd.process.whole_file import write_whole
from lbd.text.needs_words import needs_text
from lbd.text.program_names import in_list

log = logging.getLogger("lbd.lbm")

SAVE_PAUSE_S = 5.0  # the thousand compilations of a build are written at once
CANNOT_BE_RUN = (126, 127)
BY_SIGNAL = 128
WORDS_MAX = 10_000
ENDED_MAX = 1000
# How often a user's programs may bring changed lists, because their patterns are compiled.
CHANGES_PER_S, CHANGES_AT_ONCE = 2.0, 20


class Run:
    """One run on this host of a command that the book is about, from its beginning to its end."""

    def __init__(self, eligible: "Eligibility", uid: int, key: str, *, measured: bool) -> None:
        self._eligible = eligible
        self._uid = uid
        self._key = key
        self._began_s = time.monotonic()
        self.measured = measured
        self._reported = False
        eligible.book.begun_here(uid, key, measured=measured)

    def used(self, cpu_s: float, status: int, peak_bytes: int = 0) -> None:
        """Notes what the client measured, once."""
        if self.measured and not self._reported:
            self._reported = True
            self._eligible.learn(self._uid, self._key, cpu_s, status, peak_bytes)

    def ended(self) -> None:
        wall_s = time.monotonic() - self._began_s
        book = self._eligible.book
        book.ended_here(self._uid, self._key, measured=self.measured, wall_s=wall_s)


class Eligibility:
    """The book of this host, with its file."""

    def __init__(self, config: Config, save_pause_s: float = SAVE_PAUSE_S) -> None:
        self._save_pause_s = save_pause_s
        own = config.eligibility
        self._book = Book(
            Lists(own.always, own.never, own.features),
            own.max_commands,
            own.max_users,
            config.lim.job_threshold_s,
        )
        self._path = Path(config.host.state_dir) / "learnt.json"
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._changed = False
        # Runs that have ended and were not learnt from yet: uid, key, status, CPU time, memory,
        # when.
        self._ended: list[tuple[int, str, int, float, int, float]] = []
        self._changes = Rates(CHANGES_PER_S, CHANGES_AT_ONCE)
        self._load()

    @property
    def book(self) -> Book:
        """The book with all ended runs: learning from many at once costs far less for each."""
        if self._ended:
            self._learn_all()
        return self._book

    def kept_by_owner(self, argv: Sequence[bytes]) -> bool:
        """Whether the owner of this host says that the command never leaves."""
        never = self._book.host.never
        return bool(never) and in_list(never, name_of(argv), key_of(argv))

    def judge(self, uid: int, argv: Sequence[bytes], directory: bytes) -> Verdict:
        return self.book.judge(whose(uid), argv, directory, time.time())

    def needed(self, uid: int, argv: Sequence[bytes]) -> Needs:
        return self.book.needed(whose(uid), argv)

    def expected(self, uid: int, key: str) -> tuple[float, int]:
        """CPU seconds and bytes of memory expected of its next run; 0: nothing was learnt."""
        known = self.book.peek(whose(uid)).commands.get(key)
        if known is None:
            return 0.0, 0
        return known.estimate.mean_s if known.estimate is not None else 0.0, known.peak_bytes

    def run_here(self, uid: int, key: str, verdict: Verdict) -> Run | None:
        """Begins a run; returns None if lists or tables decide, so that there is nothing to
        learn."""
        if verdict.by:
            return None
        return Run(self, whose(uid), key, measured=verdict.measure)

    def ran_there(self, uid: int, key: str, cpu_s: float, cause: str, peak_bytes: int = 0) -> None:
        status = 0 if cause == "exited" else BY_SIGNAL
        self.learn(uid, key, cpu_s, status, peak_bytes)

    def learn(self, uid: int, key: str, cpu_s: float, status: int, peak_bytes: int = 0) -> None:
        self._ended.append((uid, key, status, cpu_s, peak_bytes, time.time()))
        self._save_soon()
        if len(self._ended) >= ENDED_MAX:
            self._learn_all()

    def _learn_all(self) -> None:
        ended, self._ended = self._ended, []
        owners = {uid: whose(uid) for uid in {one[0] for one in ended}}
        for uid, key, status, cpu_s, peak_bytes, unix_s in ended:
            self._learn(owners[uid], key, status, cpu_s, peak_bytes, unix_s)

    def _learn(
        self, uid: int, key: str, status: int, cpu_s: float, peak_bytes: int, unix_s: float
    ) -> None:
        """`uid`: whose command it is, as of `whose`."""
        if status in CANNOT_BE_RUN:
            return
        whole = status < BY_SIGNAL
        says_more = self._book.measured(uid, key, cpu_s, unix_s, whole=whole)
        if self._book.took(uid, key, peak_bytes, whole=whole) or says_more:
            self._changed = True

    # Questions

    def answer(self, question: Json, uid: int) -> Json:
        """Answers `eligible` of lbctl and `shims` of lbsh. Raises Refusal."""
        uid = whose(uid)
        if question.keys() & {"always", "never", "features"}:
            try:
                lists = read_lists(question)
            except ValueError as problem:
                raise Refusal(str(problem)) from None
            if lists == self.book.host:  # both have read the same lbd.toml
                lists = Lists()
            if lists != self.book.peek(uid).lists:
                self._check_new(lists, uid)
                self.book.set_lists(uid, lists)
                self._changed = True
                self._save_soon()
        if question["op"] == "shims":
            names = self.book.shimless(uid, time.time())
            return {"generation": generation_of(names), "shimless": names}
        if question.get("command") is not None:
            return self._explain(question, uid)
        book = self.book.peek(uid)
        return {
            "threshold_s": self.book.threshold_s,
            "always": list(book.lists.always),
            "never": list(book.lists.never),
            "features": list(book.lists.features),
            "host_features": list(self.book.host.features),
            "host_always": list(self.book.host.always),
            "host_never": list(self.book.host.never),
            "commands": [
                self._row(uid, key, known) for key, known in book.commands.items() if known.estimate
            ],
        }

    def _check_new(self, lists: Lists, uid: int) -> None:
        """Checks new lists, so that nobody's patterns stop the event loop. Raises Refusal."""
        for key, entries in (("always", lists.always), ("never", lists.never)):
            if fault := fault_of_patterns(entries):
                raise Refusal(f"eligibility.{key} {fault}")
        if self._changes.turn_s(uid, time.monotonic(), 0.0) is None:
            raise Refusal("your eligibility lists change too often")

    def _row(self, uid: int, key: str, known: Known) -> Json:
        verdict = self.book.judge_key(uid, key, time.time())
        return {
            "key": key,
            "eligible": verdict.leaves,
            "reason": verdict.reason,
            "list": verdict.by or None,
            **figures(known),
        }

    def _explain(self, question: Json, uid: int) -> Json:
        words, directory = question["command"], question.get("directory", "/")
        if not isinstance(words, list) or not 0 < len(words) <= WORDS_MAX:
            raise Refusal('"command" must be a list of words')
        argv = [os.fsencode(str(word)) for word in words]
        verdict = self.judge(uid, argv, os.fsencode(str(directory)))
        book: UserBook = self.book.peek(uid)
        return {
            "key": key_of(argv),
            "eligible": verdict.leaves,
            "reason": verdict.reason,
            "why": verdict.why,
            "list": verdict.by or None,
            "needs": needs_text(self.book.needed(uid, argv)),
            "measure": verdict.measure,
            "threshold_s": self.book.threshold_s,
            **figures(book.commands.get(key_of(argv), Known())),
        }

    # The file

    def _load(self) -> None:
        """Reads the file. A damaged one is set aside, with one line in the log."""
        try:
            self.book.read(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as problem:
            aside = self._path.with_suffix(".damaged")
            log.warning("%s: %s; set aside as %s", self._path, str(problem)[:200], aside.name)
            self.book.forget_all()
            try:
                self._path.replace(aside)
            except OSError as failure:
                log.warning("%s: %s", self._path, failure)

    def _save_soon(self) -> None:
        """Saves after a pause, if anything has changed by then."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                self._save_pause_s, self._save_later
            )

    def _save_later(self) -> None:
        self._timer = None
        if self._saving is not None and not self._saving.done():
            self._save_soon()  # slow disk: try later
            return
        book = self.book
        if not self._changed:
            return
        stored, self._changed = book.to_json(), False
        self._saving = asyncio.create_task(asyncio.to_thread(self._write, stored))

    async def close(self) -> None:
        """Writes what is not written yet."""
        if self._timer is not None:
            self._timer.cancel()
        if self._saving is not None:
            await self._saving
        book = self.book
        if self._changed:
            self._write(book.to_json())

    def _write(self, stored: Json) -> None:
        """Writes the file whole or not at all. Only its owner may read what people run."""
        try:
            write_whole(self._path, json.dumps(stored, separators=(",", ":")).encode(), 0o600)
        except OSError as problem:
            log.warning("cannot save what was learnt about commands: %s", problem)


def whose(uid: int) -> int:
    """Returns who owns that number through a range of /etc/subuid, if it is nobody's account.
    Otherwise a user with such a range could make the book forget everybody."""
    owner = range_owner(uid, user_name(uid))
    return uid if owner is None else owner


def figures(known: Known) -> Json:
    estimate = known.estimate
    return {
        "cpu_s": None if estimate is None else round(estimate.mean_s, 6),
        "runs": 0 if estimate is None else estimate.runs,
        "measured": None if estimate is None else estimate.measured,
        "peak_bytes": known.peak_bytes or None,
    }
