"""What the queue takes from users, hosts and its dispatcher, as functions of bytes.

What passes the check of what comes in can be written to a ledger: nothing else may stand between.
"""

import contextlib
import sqlite3

from google.protobuf.message import DecodeError

from lbd.config_dispatch import DispatchConfig
from lbd.dispatch.discipline import QueuedJob
from lbd.dispatch.intake import beat_fault, ending_of, submission_of
from lbd.dispatch.jobs import Fate, Live, changed
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.schema import STEPS
from lbd.dispatch.ledger.sqlite import carry_out
from lbd.dispatch.shares import Rules
from lbd.errors import LbdError
from lbd.lbm.queued import read_wish
from lbd.lbm.submitted import Submitted, fault_of_start, submitter_of
from lbd.model import JobId, JobState
from lbd.rpc import client_tags as tags
from lbd.rpc import frames
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.gen import lbm_pb2

ARRAY_MAX = 20
SENT = lbm_pb2.RunRequest(argv=[b"true"], directory=b"/", origin="h2", user="ann", uid=1001)
SUBMISSION = pb.SubmitRequest(
    user="ann", origin="h2", uid=1001, name="n", command=[b"true"], slots=1, may_restart=True,
    count=3, is_array=True, first_index=7, excluded=["h9"], key="k", priority=1,
    spec=pb.StoredSpec(run_request=SENT.SerializeToString(), submitted=1.7e9, output=b"/o"),
)  # fmt: skip
NEWS = pb.WorkUp(
    beat=pb.Beat(number=1, slots=4, open_slots=4, load=0.5),
    news=[
        pb.News(job="1", attempt=1, event="ended", cause="exited", exit_status=0, cpu_s=1.5),
        pb.News(job="1", attempt=1, event="refused", stage="slot", reason="no free slot", errno=2),
    ],
)
START = pb.Start(
    job="1", attempt=1, tier=1, cutoff_s=2.0, anchor=1, lease_s=30.0, slots=1, array_index=7,
    origin="h2", user="ann", uid=1001, spec=SUBMISSION.spec,
)  # fmt: skip
SEEDS = {
    "queue_submissions": (SUBMISSION.SerializeToString(),),
    "queue_news": (NEWS.SerializeToString(),),
    "queue_starts": (START.SerializeToString(),),
    "queue_frames": (
        frames.field(tags.ARRAY, b"1-3") + frames.field(tags.PRIORITY, b"-9"),
        frames.field(tags.ARRAY, b"9223372036854775807-9223372036854775808"),
    ),
}  # fmt: skip


def new_ledger() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for step in STEPS:
        db.executescript(step)
    return db


def queue_submissions(data: bytes) -> None:
    """What is taken in can be written, and its command names nobody but its submitter."""
    asked = pb.SubmitRequest()
    own = DispatchConfig(max_array=ARRAY_MAX)
    with contextlib.suppress(DecodeError):
        asked.ParseFromString(data)
        try:
            sent = submission_of(asked, own, Rules(priorities=True), by_uid=False)
        except LbdError as problem:
            refused = str(problem)
        else:
            refused = ""
        assert refused.isprintable()
        if refused:
            return
        with contextlib.closing(new_ledger()) as db:
            accepted = carry_out(db, work.insert(sent, 1.0))
            assert len(carry_out(db, work.live())) == sent.count == accepted.count
        start = pb.Start(origin=sent.origin, user=sent.user, uid=sent.uid)
        start.spec.ParseFromString(sent.spec)
        assert "in the name of" not in Submitted().common(start).fault


def queue_news(data: bytes) -> None:
    """What is believed of a host can be written."""
    up = pb.WorkUp()
    with contextlib.suppress(DecodeError):
        up.ParseFromString(data)
        beat_fault(up.beat)
        for news in up.news:
            with contextlib.suppress(ValueError):
                ending = ending_of(news)
                assert ending.reason.isprintable()
                live = Live(QueuedJob(JobId("1")), 1, reason=ending.reason)
                record = changed(live, JobState.FAILED, Fate.FAILED, ending)
                with contextlib.closing(new_ledger()) as db:
                    carry_out(db, work.apply_all([(record, 1.0)]))


def queue_starts(data: bytes) -> None:
    """What a host runs of the queue's is in the name that the dispatcher gives."""
    start = pb.Start()
    with contextlib.suppress(DecodeError):
        start.ParseFromString(data)
        assert fault_of_start(start).isprintable()
        common = Submitted().common(start)
        if not common.fault:
            request, who = common.request, submitter_of(start)
            assert who is not None
            assert (request.origin, request.user, request.uid) == (who.origin, who.user, who.uid)


def queue_frames(data: bytes) -> None:
    """An array of a user's is within bounds."""
    with contextlib.suppress(ValueError):
        found = read_wish(data)
        first, last = found.array or (0, 0)
        assert 0 <= first <= last < 10**18
        assert "\0" not in found.key


ALL = (queue_submissions, queue_news, queue_starts, queue_frames)
