"""How long `lbrun -q` waits for a dispatcher that is away, and what it shows of an end."""

import pytest

from lbd.lbm.attached import Attached, Patience
from lbd.lbm.queue_answers import shown_of
from lbd.rpc.gen import dispatch_pb2 as pb


def test_a_dispatcher_that_was_silent_for_long_is_waited_for_all_the_same():
    patience = Patience(60.0)
    patience.heard()  # at 0 s, and then nothing: the job printed nothing and went on
    assert [patience.ends(now_s) for now_s in (7200.0, 7259.0, 7260.0)] == [False, False, True]


def test_each_absence_counts_by_itself():
    patience = Patience(60.0)
    assert not patience.ends(10.0)
    patience.heard()
    assert not patience.ends(100.0)
    assert not patience.ends(159.0)
    assert patience.ends(160.0)


def test_an_absence_lasts_from_the_first_time_it_was_asked_in_vain():
    patience = Patience(60.0)
    assert patience.lasts_s(100.0) == 0.0
    assert patience.lasts_s(103.0) == 3.0
    patience.heard()
    assert patience.lasts_s(200.0) == 0.0


class Queue:
    """No host has kept anything."""

    async def jobs(self, asked):
        return pb.JobsTold()

    async def logs(self, host, asked):
        yield pb.LogsPiece(trouble="its output is not kept here (any more)")


@pytest.mark.parametrize(
    ("state", "started", "shown"),
    [("cancelled", 0.0, False), ("failed", 0.0, False), ("done", 9.0, True), ("lost", 0.0, True)],
)
async def test_of_an_attempt_that_never_began_nobody_misses_the_output(state, started, shown):
    told = []

    async def send(tag, data):
        told.append(data.decode())

    job = pb.JobTold(id=7, state=state, attempt=2, host="h2", started=started)
    job.attempts.add(number=2, host="h2", state="refused")
    await Attached(Queue(), None, "ann", 1000, "7", send, "")._heard(job)
    assert told == ["job 7: its output is not kept here (any more)"] * shown
    assert shown_of(job, ended=True) == [2] * shown
