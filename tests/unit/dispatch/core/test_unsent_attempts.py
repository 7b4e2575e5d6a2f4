"""An attempt that is not on disk yet: no host can have it."""

from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import JobState
from tests.unit.dispatch.core.test_lifecycle import Table


def test_an_attempt_that_is_not_on_disk_yet_is_not_lost_however_long_that_takes():
    """With the ledger's disk full for longer than a lease, jobs that no host had ever got were
    lost, and those that may not restart ended so."""
    table = Table(lease_s=10.0)
    (begin,) = table.submit("1", may_restart=False)
    table.now_s = 1e6
    assert table.life.tick(*table.when) == []
    assert not table.life.has_longer_leases(table.now_s)
    assert "may still run" not in reason_of(table, begin.job)
    assert table.life.sending(begin.job, 1, table.now_s)
    table.now_s += table.life.terms.waited_s - 0.01
    assert table.life.tick(*table.when) == []
    table.now_s += 0.02
    (lost,) = table.life.tick(*table.when)
    assert lost.state is JobState.LOST


def reason_of(table, job):
    return waiting_reason(table.life, table.life.jobs[job], now_s=table.now_s)
