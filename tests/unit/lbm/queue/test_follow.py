"""How long `lbrun -q` waits for a dispatcher that is away, and what it shows at the end."""

import asyncio
import gc
from collections import Counter

import pytest

from lbd.client.session import read_fields
from lbd.errors import Unavailable
from lbd.lbm.queue import shown_output
from lbd.lbm.queue.follow import FollowedJobs, begin_text
from lbd.lbm.queue.shown_output import Patience
from lbd.lbm.session.queue_json import why_no_output
from lbd.lbm.session.queue_output import shown_of
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb


def test_a_dispatcher_that_was_silent_for_long_is_waited_for_all_the_same():
    patience = Patience(60.0)
    patience.heard()  # at 0 s, and then nothing: the job printed nothing and continued
    assert [patience.ends(now_s) for now_s in (7200.0, 7259.0, 7260.0)] == [False, False, True]


def test_each_absence_counts_separately():
    patience = Patience(60.0)
    assert not patience.ends(10.0)
    patience.heard()
    assert not patience.ends(100.0)
    assert not patience.ends(159.0)
    assert patience.ends(160.0)


def test_an_absence_lasts_from_the_first_failed_question():
    patience = Patience(60.0)
    assert patience.lasts_s(100.0) == 0.0
    assert patience.lasts_s(103.0) == 3.0
    patience.heard()
    assert patience.lasts_s(200.0) == 0.0


class Queue:
    """No host has kept any output."""

    kept_bytes = 1 << 20

    async def jobs(self, asked, ledger):
        return pb.JobsInfo()

    @property
    def spools(self):
        return self

    async def logs(self, host, asked):
        yield pb.LogsPiece(trouble="its output is not stored here, or no longer")


@pytest.mark.parametrize(
    ("state", "started", "shown"),
    [("cancelled", 0.0, False), ("failed", 0.0, False), ("done", 9.0, True), ("lost", 0.0, True)],
)
async def test_nobody_misses_the_output_of_an_attempt_that_never_started(state, started, shown):
    told = []

    async def send(tag, data):
        told.append(data.decode())

    job = pb.JobInfo(id=7, state=state, attempt=2, host="h2", started=started)
    job.attempts.add(number=2, host="h2", state="refused")
    await FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")._heard(job)
    assert told == ["job 7: its output is not stored here, or no longer"] * shown
    assert shown_of(job, ended=True) == [2] * shown


def test_a_job_that_did_not_begin_again_is_not_said_to_have_never_run():
    why = "h3: /home/ann: No such file or directory"
    job = pb.JobInfo(id=9, state="failed", attempt=2, host="h3", reason=why)
    job.attempts.add(number=1, host="h3", state="lost", started=100.0, finished=101.5)
    job.attempts.add(number=2, host="h3", state="refused")
    assert shown_of(job, ended=True) == []
    ran = "attempt 1 ran 1.5s on h3 (lost): lbctl logs --attempt 1 9"
    assert why_no_output(job) == f"job 9 did not begin again: {why}; {ran}"
    job.reason = "cancelled before it ran, by ann@h1"
    assert (
        why_no_output(job)
        == f"job 9 did not begin again: {job.reason[:23]} again, by ann@h1; {ran}"
    )
    del job.attempts[0]
    assert why_no_output(job) == "job 9 was cancelled before it ran, by ann@h1"


async def test_a_job_that_is_being_started_is_not_said_to_wait():
    told = []

    async def send(tag, data):
        told.append(data.decode())

    followed = FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")
    for reason in ("2 jobs are ahead of it", "starting on h2", ""):
        await followed._heard(pb.JobInfo(id=7, state="pending", reason=reason))
    assert told == ["2 jobs are ahead of it"]


def test_a_start_that_is_a_guess_is_marked_and_has_its_interval():
    job = pb.JobInfo(predicted_wait_s=12.0)
    assert begin_text(job) == "starts in ~12s"
    job.predicted_low_s, job.predicted_high_s = 4.0, 120.0
    assert begin_text(job) == "starts in ~12s (likely 4s to 2m)"
    job.comparable = 20
    assert begin_text(job) == "starts in about 12s (likely 4s to 2m)"


class Restarting:
    """A host that is away at first, or for good."""

    kept_bytes = 1 << 20

    def __init__(self, away_times):
        self.away_times = away_times
        self.asked = Counter()  # by job

    @property
    def spools(self):
        return self

    async def logs(self, host, asked):
        self.asked[asked.job] += 1
        self.away_times -= 1
        if self.away_times >= 0:
            raise Unavailable("cannot get output from h2: it cannot be reached")
        if not asked.output_at:
            yield pb.LogsPiece(output=b"last words", output_at=10)


async def shown_by(queue, *jobs):
    told = []

    async def send(tag, data):
        told.append(data.decode())

    jobs = [pb.JobInfo(id=7 + n, state=state, attempt=1, host="h2", started=9.0)
            for n, state in enumerate(jobs)]  # fmt: skip
    followed = FollowedJobs(queue, None, "ann", 1000, "1ed9e4", "7", "7-9", send, "")
    for job in jobs:
        await followed._heard(job)
    return told


async def test_a_host_that_is_away_as_the_job_ends_is_asked_again(monkeypatch):
    """Its LBM is being restarted: the output is available a moment later."""
    monkeypatch.setattr(shown_output, "RETRY_S", 0.0)
    assert await shown_by(Restarting(3), "failed") == ["last words"]


async def test_a_host_that_stays_away_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(shown_output, "RETRY_S", 0.0)
    monkeypatch.setattr(shown_output, "RETRY_FOR_S", 0.01)
    why = "cannot get output from h2: it cannot be reached; its output once h2 is back"
    queue = Restarting(10**9)
    told = await shown_by(queue, "done")
    assert told == [f"job 7: {why}: lbctl logs 7"]
    monkeypatch.setattr(shown_output, "RETRY_FOR_S", 1e9)
    lost = await shown_by(queue, "lost")
    assert lost == told  # at once: a job that is lost with its host is not waited for


async def test_of_many_jobs_on_a_host_that_stays_away_only_one_waits(monkeypatch):
    monkeypatch.setattr(shown_output, "RETRY_S", 0.0)
    monkeypatch.setattr(shown_output, "RETRY_FOR_S", 0.01)
    queue = Restarting(10**9)
    told = await shown_by(queue, "done", "failed", "done")
    assert [line.split(":")[0] for line in told] == ["job 7", "job 8", "job 9"]
    assert queue.asked["7"] > queue.asked["8"] == queue.asked["9"] == 1


class Running:
    """A job that runs and prints."""

    kept_bytes = 1 << 20

    def __init__(self):
        self.open = 0

    async def watch(self, asked, ledger):
        assert ledger == "1ed9e4"
        job = pb.JobInfo(id=7, state="running", attempt=1, host="h2", started=9.0, is_final=True)
        yield pb.JobsInfo(jobs=[job])
        await asyncio.Event().wait()

    @property
    def spools(self):
        return self

    async def logs(self, host, asked):
        self.open += 1
        try:
            while True:
                yield pb.LogsPiece(output=b"text", output_at=4)
        finally:
            self.open -= 1


async def test_who_does_not_read_and_goes_away_leaves_nothing_behind():
    """Each left a call to the other host open, of which this host can have only so many."""
    queue, waits = Running(), asyncio.Event()

    async def send(tag, data):
        waits.set()
        await asyncio.Event().wait()  # until its socket has room; it is closed by then

    following = asyncio.create_task(
        FollowedJobs(queue, None, "ann", 1000, "1ed9e4", "7", "7", send, "").follow()
    )
    await asyncio.wait_for(waits.wait(), 20)
    assert queue.open == 1
    following.cancel()
    await asyncio.wait((following,), timeout=90)
    assert following.cancelled()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "show 7"]
    gc.collect()
    await asyncio.sleep(0)
    assert queue.open == 0


UNRECORDED = (
    "the command has ended; it can be recorded once there is room on h1: /srv/ledger is full"
)
NO_ROOM = "it begins once there is room on h1: /srv/ledger is full"


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [("running", UNRECORDED, UNRECORDED), ("pending", NO_ROOM, f"job 7 waits: {NO_ROOM}")],
)
async def test_a_full_ledger_is_said_once_and_without_a_terminal(state, reason, said):
    """`lbrun -q` said nothing until the disk was freed, unless it had a terminal."""
    told = []

    async def send(tag, data):
        told.append((tag, data.decode()))

    followed = FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")
    for _ in range(2):
        await followed._heard(pb.JobInfo(id=7, state=state, reason=reason))
    assert told == [(tags.WARN, said)]


async def test_a_job_whose_begin_is_not_on_disk_is_not_said_to_wait():
    told = []

    async def send(tag, data):
        told.append((tag, data.decode()))

    followed = FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")
    runs = UNRECORDED.replace("the command has ended", "it runs on h2")
    await followed._heard(pb.JobInfo(id=7, state="running", reason=runs))
    assert told == []


@pytest.mark.parametrize("are_wanted", [True, False])
async def test_a_suspended_job_is_said_to_be_suspended_and_to_go_on(are_wanted):
    """It was said to wait, and never to go on."""
    told = []

    async def send(tag, data):
        told.append((tag, data.decode()))

    followed = FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")
    followed.pauses.are_wanted = are_wanted
    why = "h2's owner came back at 19:21"
    for state, reason in (
        ("running", ""), ("suspended", why), ("suspended", f"{why}; moving"), ("running", ""),
    ):  # fmt: skip
        job = pb.JobInfo(id=7, state=state, attempt=1, host="h2", reason=reason)
        await followed._heard(job)
    said = [(tags.WARN, f"h2: suspended: {why}"), (tags.WARN, "h2: goes on")]
    assert told == said * are_wanted


@pytest.mark.parametrize(
    ("cause", "state", "interrupted", "told"),
    [
        ("signalled", "cancelled", 0, ("cancelled", "cancelled by ann@h1")),
        ("signalled", "cancelled", 9, ("signalled", "")),  # its user's ^C, twice
        ("", "cancelled", 2, ("cancelled", "cancelled by ann@h1")),
        ("signalled", "failed", 0, ("signalled", "")),
        ("refused", "failed", 0, ("refused", "cancelled by ann@h1")),
    ],
)
async def test_the_end_names_who_cancelled_the_job(cause, state, interrupted, told):
    """A status file said only that a signal had ended it."""
    sent = []

    async def send(tag, data):
        sent.append((tag, read_fields(data)))

    reason = "cancelled by ann@h1"
    job = pb.JobInfo(id=7, state=state, cause=cause, exit_status=143, signal=15, reason=reason)
    followed = FollowedJobs(Queue(), None, "ann", 1000, "1ed9e4", "7", "7", send, "")
    followed.interrupted = interrupted
    followed._ended.add(job)
    await followed._report_end()
    ((tag, end),) = sent
    assert (tag, end[tags.STATUS]) == (tags.DONE, "143")
    assert (end[tags.CAUSE], end[tags.REASON]) == told
