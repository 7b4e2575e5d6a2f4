"""The results of queued commands are brought to those who asked for them."""

import asyncio
import contextlib
import itertools
import os
import time
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.queue import user_watches
from lbd.lbm.staging import fetch_turns, pack_store, queued_files
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import Note
from lbd.lbm.staging.queued_files import DAY_S, WATCHED_MAX, QueuedFiles, mark_of
from lbd.lbm.staging.sweep import remove_old
from lbd.net.gen import dispatch_pb2 as pb
from lbd.pack.unpack import Fetching
from tests.unit.turns import others_turns
from tests.unit.until import until

HOSTILE, OTHER = 1001, 1002


def no_queue():
    return SimpleNamespace(ledger="", when_ledger_changes=[])


class Brought(QueuedFiles):
    """Records what is brought; for one user this never ends, as when the user stops the step."""

    def __init__(self, config, queue=None):
        super().__init__(config, None, queue or AllEnded())
        self.brought = asyncio.Queue()

    async def bring(self, note, job, turn):
        if note.uid == HOSTILE:
            await asyncio.get_running_loop().create_future()
        self.brought.put_nowait(job.id)
        return ""


class AllEnded:
    """A queue whose jobs have all ended."""

    ledger = ""

    def __init__(self):
        self.when_ledger_changes = []

    async def watch(self, asked, ledger):
        now_s = time.time()
        yield pb.JobsInfo(jobs=[pb.JobInfo(id=job, finished=now_s) for job in jobs_in(asked)])


def jobs_in(asked):
    ranges = (map(int, text.split("-")) for text in asked.selectors)
    return {job for low, high in ranges for job in range(low, high + 1)}


def note(job, uid):
    return Note(f"{job:032x}", "", job, 1, uid, 0o022, "/", ["in"], ["out"])


class NoneEnded(AllEnded):
    async def watch(self, asked, ledger):
        await asyncio.get_running_loop().create_future()
        yield


@contextlib.asynccontextmanager
async def running(files):
    task = asyncio.create_task(files.run())
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_one_user_does_not_keep_the_outputs_of_another(tmp_path):
    files = Brought(Config(host=HostConfig(state_dir=str(tmp_path))))
    files.store.root.mkdir()
    for job, uid in ((1, HOSTILE), (2, OTHER), (3, HOSTILE), (4, OTHER)):
        files.store.write(note(job, uid))
    async with running(files):
        assert {await files.brought.get() for _ in range(2)} == {2, 4}


class Watched(QueuedFiles):
    """Records what is watched."""

    def __init__(self, config):
        super().__init__(config, None, queue := no_queue())
        queue.watch = self._watch
        self.watched = asyncio.Queue()
        self.brought = asyncio.Queue()

    async def bring(self, note, job, turn):
        self.brought.put_nowait(job.id)
        return ""

    async def _watch(self, asked, ledger):
        self.watched.put_nowait(jobs_in(asked))
        yield await asyncio.get_running_loop().create_future()

    def ended(self, note, job):
        self._in_hand[job] = note
        self._ended.put_nowait(pb.JobInfo(id=job, finished=time.time()))


@contextlib.asynccontextmanager
async def watched(tmp_path, *notes):
    files = Watched(Config(host=HostConfig(state_dir=str(tmp_path))))
    files.store.root.mkdir()
    for one in notes:
        files.store.write(one)
    async with running(files):
        yield files


def array(first, count, uid):
    return replace(note(first, uid), count=count)


async def test_jobs_of_one_user_that_never_begin_do_not_hide_those_of_another(tmp_path):
    """Only the first so many were watched, regardless of their users."""
    theirs, other = array(1, 50_000, HOSTILE), array(50_001, 20_000, OTHER)
    async with watched(tmp_path, theirs, other) as files:
        half = WATCHED_MAX // 2
        first = await files.watched.get() | await files.watched.get()
        assert first == {*range(1, half + 1), *range(50_001, 50_001 + half)}
        files.ended(files._open[other.name], 50_001)
        assert 50_001 + half in await files.watched.get()


async def test_only_jobs_of_the_queues_own_ledger_are_watched_and_found(tmp_path):
    """Another ledger has other jobs of these numbers, and knows nothing of ours: it could have
    outputs put in their places, or have them forgotten."""
    ours = note(1, OTHER)
    theirs = replace(ours, name="f" * 32, ledger="1ed9e4")
    async with watched(tmp_path, ours, theirs) as files:
        files._queue.ledger = "1ed9e4"
        for tell in files._queue.when_ledger_changes:
            tell()
        while await files.watched.get() != {1}:
            pass
        assert files.jobs_of(OTHER, "1ed9e4") == {1: theirs}
        assert files._open.of_job(1) == theirs
        assert files._open.of_job(1, "") == ours
        for one in files._open.values():
            one.waited_for = True
        assert files.waited_for("", 1).name == ours.name
        assert files.jobs_of(OTHER, "1ed9e4") == {}


async def test_the_end_of_a_long_array_holds_up_nobody(tmp_path):
    """Each of its jobs cost as much as all of them, one after another: after `lbctl kill` of a
    hundred thousand the LBM did nothing else for a quarter of an hour."""
    long = array(1, 100_000, HOSTILE)
    async with watched(tmp_path, long) as files:
        await files.watched.get()
        with others_turns() as turns:
            jobs = range(1, 5001)
            for job in jobs:
                files.ended(files._open[long.name], job)
            for _ in jobs:
                await files.brought.get()
        assert turns() > 2000


class LooksInOrder(AllEnded):
    """A queue that looks at one job whenever another is submitted; one has ended."""

    def __init__(self, ended):
        super().__init__()
        self._ended = ended
        self.submitted = asyncio.Event()

    async def watch(self, asked, ledger):
        for job in sorted(jobs_in(asked)):
            if job == self._ended:
                yield pb.JobsInfo(jobs=[pb.JobInfo(id=job, finished=time.time())])
            await self.submitted.wait()
            self.submitted.clear()


async def test_who_submits_without_end_keeps_nobody_elses_outputs_back(tmp_path, monkeypatch):
    """All jobs were watched by one stream, which was opened again after each submission: it never
    came to the jobs behind the thousands of one user."""
    monkeypatch.setattr(user_watches, "PAUSE_S", 0.0)
    queue, config = LooksInOrder(2000), Config(host=HostConfig(state_dir=str(tmp_path)))
    files = Brought(config, queue)
    files.store.root.mkdir()
    for one in (array(1, 1000, HOSTILE), note(2000, OTHER)):
        files.store.write(one)
    async with running(files):
        for job in range(3000, 3050):
            await files.queued(note(job, HOSTILE))
            queue.submitted.set()
        assert files.brought.get_nowait() == 2000


class Forgetful:
    """A queue that no longer knows one job."""

    def __init__(self, forgotten):
        self._forgotten = str(forgotten)
        self.ledger, self.when_ledger_changes = "", []

    def _reply(self, asked):
        lost = {f"{self._forgotten}-{self._forgotten}"} & {*asked.selectors}
        return pb.JobsInfo(error=f"no job {self._forgotten}" if lost else "")

    async def jobs(self, asked, ledger):
        return self._reply(asked)


async def test_what_the_queue_has_forgotten_takes_nobody_elses_outputs_along(tmp_path):
    """One job caused an error for all watched jobs: no outputs were brought any more."""
    config = Config(host=HostConfig(state_dir=str(tmp_path)))
    files = QueuedFiles(config, None, Forgetful(3))
    files.store.root.mkdir()
    notes = {job: note(job, OTHER if job % 2 else HOSTILE) for job in range(1, 12, 2)}
    files._open = OpenNotes(notes.values())
    await files.forgotten(notes, "", "")
    assert {one.first for one in files._open.values()} == notes.keys() - {3}


async def test_outputs_are_expected_until_the_job_or_the_whole_array_needs_nothing_more(tmp_path):
    files = QueuedFiles(Config(host=HostConfig(state_dir=str(tmp_path))), None, no_queue())
    files.store.root.mkdir()
    array = note(4, OTHER)
    array = Note(**{name: getattr(array, name) for name in
                    ("name", "ledger", "uid", "umask", "directory", "send", "fetch")},
                 first=4, count=2)  # fmt: skip
    files._open[array.name] = array

    def expected():
        jobs = (4, False), (5, False), (4, True), (6, False)
        return [files.awaited.expects(job, array=whole) for job, whole in jobs]

    assert expected() == [True, True, True, False]
    await files.done(array, 4)
    assert expected() == [False, True, True, False]
    await files.done(array, 5)
    assert expected() == [False, False, False, False]


async def test_a_job_that_ended_before_any_host_had_it_has_made_nothing(tmp_path):
    """The transfer was retried every ten seconds for a week."""
    files = QueuedFiles(Config(host=HostConfig(state_dir=str(tmp_path))), None, no_queue())
    ended = pb.JobInfo(id=1, attempt=1, state="cancelled", finished=time.time())
    assert await files.bring(note(1, OTHER), ended, None) == ""


class Away(Watched):
    """The host that has the outputs cannot be reached."""

    async def bring(self, note, job, turn):
        self.brought.put_nowait(job.id)
        raise Unavailable("h2 is down")


async def test_outputs_that_cannot_be_had_are_asked_for_less_and_less_often(tmp_path, monkeypatch):
    monkeypatch.setattr(queued_files, "RETRY_S", 0.01)
    files = Away(Config(host=HostConfig(state_dir=str(tmp_path))))
    pauses = []
    later = lambda pause_s, *_: pauses.append(pause_s)  # noqa: E731
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", later)
    monkeypatch.setattr(fetch_turns.FetchTurn, "_look_later", lambda _: None)
    for age_s in (0.0, 80.0, 86_400.0):
        files._in_hand[1] = note(1, OTHER)
        files._turns.lanes[OTHER, "h2"] = ended = deque(
            [pb.JobInfo(id=1, attempt=1, host="h2", finished=time.time() - age_s)]
        )
        await files._bring_of((OTHER, "h2"), ended)
    assert [round(pause_s, 1) for pause_s in pauses] == [0.0, 10.0, 600.0]
    assert files.awaited.troubles == {1: "h2 is down"}
    own = note(1, OTHER)
    files._open[own.name] = own
    assert files.awaited.coming(OTHER, [1]) == [1]


def test_the_temporary_names_beside_fetched_files_cannot_be_guessed():
    """In a directory like /tmp another user could create the file first, and each try would
    fail."""
    notes = [replace(note(7, OTHER), name=digit * 32) for digit in "0af"]
    marks = {mark_of(one, job) for one in notes for job in (7, 8)}
    assert len(marks) == 6
    assert mark_of(notes[0], 7) in marks
    longest = Fetching([], [], int(mark_of(notes[2], 10**18)))._beside(999)
    assert len(longest) <= 255


class Packing:
    """Packs nothing, at once."""

    async def step(self, *_):
        return "", ""


async def queued(files, request, uid, job):
    stamp, directory = Stamp("boot", 1, 2), os.fsdecode(request.directory)
    name, noted = await files.gather(request, uid, stamp)
    send, fetch = ([os.fsdecode(path) for path in p] for p in (request.send, request.fetch))
    more = {"stamp": stamp.pack().decode(), "noted": noted}
    await files.queued(Note(name, "", job, 1, uid, 0o022, directory, send, fetch, **more))
    return files._open[name]


async def test_the_names_of_one_users_files_leave_disk_for_others(tmp_path, monkeypatch):
    """Only packs counted: 6 MB of names a job, for a week, in a file of the daemons'."""
    files = QueuedFiles(Config(host=HostConfig(state_dir=str(tmp_path))), Packing(), no_queue())
    root, disk = files.store.root, 8 << 20

    def free():
        return disk - sum(path.stat().st_size for path in root.iterdir())

    monkeypatch.setattr(files.store, "free_bytes", free)
    long = SimpleNamespace(send=[], fetch=[b"\xff" * 1000] * 100, directory=b"/", umask=0o022)
    made, refused = [], ""
    while not refused:
        try:
            made.append(await queued(files, long, HOSTILE, len(made) + 1))
        except Unavailable as problem:
            refused = str(problem)
    assert (refused, len(made) > 2, free() > disk // 3) == (queued_files.NO_DISK, True, True)
    assert files.store.names() == {one.name for one in made}
    for job in range(100, 102):
        await queued(files, long, OTHER, job)
    for one in made:  # the user kills them
        await files.done(one, one.first)
    assert free() > disk // 3
    with pytest.raises(Unavailable):  # their outputs could still come, after `lbctl requeue`
        await queued(files, long, HOSTILE, 200)
    week_s = time.time() - 8 * DAY_S
    for path in root.iterdir():
        os.utime(path, (week_s, week_s))
    remove_old(files.store, 7, 90, set(files._open))
    files.store.keep(files.store.names())
    await queued(files, long, HOSTILE, 200)


async def test_names_of_files_that_nobody_needs_any_more_take_no_disk(tmp_path):
    files = QueuedFiles(Config(host=HostConfig(state_dir=str(tmp_path))), Packing(), no_queue())
    sent = SimpleNamespace(send=[b"\xff" * 1000] * 100, fetch=[], directory=b"/", umask=0o022)
    one = await queued(files, sent, HOSTILE, 1)
    path = files.store.root / f"{one.name}.note"
    was = path.stat().st_size
    await files.done(one, 1)
    assert (was > 100_000, path.stat().st_size < 100) == (True, True)
    assert files.store.path(one.name).exists()
    assert files.store.room.left(HOSTILE, was) > was // 4


@pytest.mark.parametrize(
    "names",
    [
        {"send": ["é€".encode() * 1000] * 10, "fetch": [b"o"] * 10, "directory": b"/"},
        {
            "send": [],
            "fetch": [b"o"],
            "directory": "/".join(["\U0001f600" + "a" * 200] * 18).encode(),
        },
    ],
    ids=["files", "directory"],
)
async def test_the_names_of_one_users_files_leave_memory_for_others(tmp_path, monkeypatch, names):
    """Jobs that never begin, with thousands of empty files each, filled the LBM's memory at 20 MB a
    second, and again when it was started anew. Of a directory with one such character in its name,
    each character takes four bytes."""
    monkeypatch.setattr(pack_store, "NOTES_BYTES", 1 << 20)
    config = Config(host=HostConfig(state_dir=str(tmp_path)))
    files = QueuedFiles(config, Packing(), no_queue())
    long = SimpleNamespace(**names, umask=0o022)
    jobs = itertools.count(1)
    made, refused = [await queued(files, long, HOSTILE, next(jobs))], ""
    while not refused:
        try:
            made.append(await queued(files, long, HOSTILE, next(jobs)))
        except Unavailable as problem:
            refused = str(problem)
    assert (refused, 3 <= len(made) < 40) == (queued_files.TOO_MANY_NAMES, True)
    await queued(files, long, OTHER, next(jobs))
    kept = files.store.memory._of_user
    later = Brought(config, NoneEnded())
    async with running(later):
        await until(lambda: later.store.memory._of_user == kept)
    for one in made:
        await files.done(one, one.first)
    await queued(files, long, HOSTILE, next(jobs))
