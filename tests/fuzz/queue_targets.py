"""Fuzz targets for the queue's input from users, hosts and its dispatcher.

Any input that passes the check must be fit for a ledger, with no further check in between.
"""

import contextlib
import math
import sqlite3

from google.protobuf.message import DecodeError

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.records import Fate, Live, changed
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.intake import ending_of, heartbeat_fault, submission_of
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.schema import STEPS
from lbd.dispatch.ledger.sqlite import carry_out
from lbd.errors import LbdError, PeerError
from lbd.lbm.inbound.submitted import Submitted, fault_of_start, submitter_of
from lbd.lbm.queue.submit import OPTIONS, SubmitOptions
from lbd.lbm.session import queue_output
from lbd.lbm.session import queue_questions as queue_answers
from lbd.lbm.session import usage_questions as usage_answers
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local import json_socket as local
from lbd.model import JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.text.index_list import count_of

ARRAY_MAX = 20
SENT = lbm_pb2.RunRequest(argv=[b"true"], directory=b"/", origin="h2", user="ann", uid=1001)
SUBMISSION = pb.SubmitRequest(
    user="ann", origin="h2", uid=1001, name="n", command=[b"true"], slots=1, may_restart=True,
    count=3, is_array=True, first_index=7, excluded=["h9"], key="k", priority=1,
    spec=pb.StoredSpec(run_request=SENT.SerializeToString(), submitted=1.7e9, output=b"/o"),
)  # fmt: skip
NEWS = pb.WorkUp(
    heartbeat=pb.Heartbeat(number=1, slots=4, open_slots=4, load=0.5),
    reports=[
        pb.AttemptReport(
            job="1", attempt=1, event="ended", cause="exited", exit_status=0, cpu_s=1.5
        ),
        pb.AttemptReport(
            job="1", attempt=1, event="refused", phase="slot", reason="no free slot", errno=2
        ),
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
    "queue_questions": (
        b'{"op": "queue.wait", "ids": ["1"], "patience_s": 1%s}' % (b"0" * 400),
        b'{"op": "queue.logs", "ids": ["1"], "at": [Infinity, 0], "slots": 3, "since": 1e9}',
        b'{"op": "queue.logs", "ids": ["1-5", 7], "at": [0, 9], "patience_s": NaN, "after": 1}',
    ),
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
    """An accepted submission can be written, and its command names nobody but its submitter."""
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


def queue_reports(data: bytes) -> None:
    """Any report that is believed can be written."""
    up = pb.WorkUp()
    with contextlib.suppress(DecodeError):
        up.ParseFromString(data)
        heartbeat_fault(up.heartbeat)
        for news in up.reports:
            with contextlib.suppress(ValueError):
                ending = ending_of(news)
                assert ending.reason.isprintable()
                live = Live(QueuedJob(JobId("1")), 1, reason=ending.reason)
                record = changed(live, JobState.FAILED, Fate.FAILED, ending)
                with contextlib.closing(new_ledger()) as db:
                    carry_out(db, work.apply_all([(record, 1.0)]))


def queue_starts(data: bytes) -> None:
    """A host runs queued commands only in the name that the dispatcher gives."""
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
    """A user's array is within bounds."""
    with contextlib.suppress(ValueError):
        found = SubmitOptions()
        OPTIONS.read(data, found)
        indexes, at_once = found.tasks
        assert all(0 <= first <= last < 10**18 and step > 0 for first, last, step in indexes)
        assert count_of(indexes) <= 10_000_000
        assert 0 <= at_once <= 10_000_000
        assert "\0" not in found.key


def queue_questions(data: bytes) -> None:
    """The numbers that local users send in JSON: an accepted one can be waited for, and sent."""
    with contextlib.suppress(PeerError):
        question = local.decode(frames.JSON, data)
        with contextlib.suppress(LbdError):
            assert math.isfinite(local.bounded_s(question, "patience_s"))
        with contextlib.suppress(ValueError):
            output_at, error_at, _ = queue_output.places_of(question.get("at"))
            pb.LogsRequest(output_at=output_at, error_at=error_at)
        with contextlib.suppress(ValueError):
            queue_answers.selectors_of(question)
        with contextlib.suppress(ValueError):
            pb.PredictAsked(slots=queue_answers.whole(question.get("slots")))
        with contextlib.suppress(ValueError):
            assert math.isfinite(usage_answers.moment(question.get("since")))
        with contextlib.suppress(ValueError):
            lbm_pb2.HistoryRequest(after=usage_answers.whole(question.get("after")))


ALL = (queue_questions, queue_submissions, queue_reports, queue_starts, queue_frames)
