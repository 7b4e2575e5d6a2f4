"""An attempt is admitted at once if its account is known."""

from lbd.keeper.local_account import Admit
from lbd.lbm.core.execution import Phase
from tests.unit.lbm.queue.test_attempt_guards import attempt, begin, host, news
from tests.unit.until import until

__all__ = ["attempt", "host", "news"]


async def test_it_is_spawned_at_once_if_the_user_database_need_not_be_asked(host, attempt):
    host.admit_at_once = lambda *_: Admit(None)
    attempt.begin()
    assert attempt.execution.phase is Phase.SPAWNING
    await until(lambda: attempt.execution.process is not None)


async def test_a_fault_at_its_admission_does_not_reach_the_others(host, attempt):
    def fault(*_):
        raise OSError("the memory's pressure cannot be read")

    host.admit_at_once = fault
    await begin(attempt)
