"""What the journal has of commands that an owner's rules suspend or end."""

import logging
from types import SimpleNamespace

from lbd.lbm.core.execution import Phase
from lbd.lbm.core.execution_events import Cause, Treatment
from lbd.lbm.inbound.performer import stepped


class Treated(SimpleNamespace):
    """An execution to which each event is what becomes of it."""

    def handle(self, event, now_s):
        self.__dict__.update(event)
        return []

    @property
    def is_still(self):
        return self.treatment.is_still


def test_an_owner_s_treatment_of_a_command_is_logged_when_it_changes(caplog):
    caplog.set_level(logging.INFO, "lbd.lbm")
    execution = Treated(
        phase=Phase.RUNNING, treatment=Treatment.NICE, cause=None, reason="", still_reason=""
    )
    live = SimpleNamespace(
        id="a1", shown="12_7", which="attempt 2, ", execution=execution, clock=lambda: 0.0
    )
    stepped(live, {"treatment": Treatment.STILL, "still_reason": "pts/1 was used"})
    stepped(live, {"still_reason": "pts/1 was used 5 s ago"})
    stepped(live, {"treatment": Treatment.GO})
    stepped(live, {"treatment": Treatment.NONE})
    stepped(live, {"treatment": Treatment.NICE})
    stepped(live, {"cause": Cause.EVICTED, "reason": "its owner is back"})
    assert [(one.job, one.getMessage()) for one in caplog.records] == [
        ("12_7", "attempt 2, suspended: pts/1 was used"),
        ("12_7", "attempt 2, goes on"),
        ("12_7", "attempt 2, ended for the owner: its owner is back"),
    ]
