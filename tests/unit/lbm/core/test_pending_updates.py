"""Updates that are kept for a dispatcher that is away."""

from lbd.lbm.core.pending_updates import PendingReports
from lbd.net.gen import dispatch_pb2 as pb


def news(event, job="1", attempt=1):
    return pb.AttemptReport(job=job, attempt=attempt, event=event)


def told(pending):
    return [(one.job, one.event) for one in pending.take()]


def test_outdated_updates_are_not_kept():
    pending = PendingReports()
    pending.add(news("begun"))
    for _ in range(1000):
        pending.add(news("stopped"))
        pending.add(news("continued"))
    pending.add(news("stopped", job="2"))
    pending.add(news("ended"))
    assert told(pending) == [("1", "begun"), ("1", "continued"), ("2", "stopped"), ("1", "ended")]


def test_updates_are_sent_once_and_in_order():
    pending = PendingReports()
    pending.add(news("stopped"))
    assert told(pending) == [("1", "stopped")]
    pending.add(news("continued"))
    pending.add(news("refused", job="2"))
    pending.add(news("stopped"))
    assert told(pending) == [("2", "refused"), ("1", "stopped")]
    assert told(pending) == []
