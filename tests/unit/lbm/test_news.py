"""What is kept for a dispatcher that is away."""

from lbd.lbm.news import Untold
from lbd.rpc.gen import dispatch_pb2 as pb


def news(event, job="1", attempt=1):
    return pb.News(job=job, attempt=attempt, event=event)


def told(untold):
    return [(one.job, one.event) for one in untold.take()]


def test_of_what_is_untrue_by_now_nothing_is_kept():
    untold = Untold()
    untold.add(news("begun"))
    for _ in range(1000):
        untold.add(news("stopped"))
        untold.add(news("continued"))
    untold.add(news("stopped", job="2"))
    untold.add(news("ended"))
    assert told(untold) == [("1", "begun"), ("1", "continued"), ("2", "stopped"), ("1", "ended")]


def test_what_is_told_is_told_once_and_in_order():
    untold = Untold()
    untold.add(news("stopped"))
    assert told(untold) == [("1", "stopped")]
    untold.add(news("continued"))
    untold.add(news("refused", job="2"))
    untold.add(news("stopped"))
    assert told(untold) == [("2", "refused"), ("1", "stopped")]
    assert told(untold) == []
