"""What `lbctl doctor` says of settings that no dispatcher can use."""

import pytest

from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.doctor.queue_settings import queue_settings

FALLING = {"dispatch.host": '"h1"', "dispatch.mode": '"tags"', "tags.cutoffs_s": "[3600, 60]"}


class Saved(Daemons):
    def __init__(self, config, saved):
        super().__init__(config)
        object.__setattr__(self, "kept", saved)

    def saved(self):
        return self.kept


@pytest.mark.parametrize(
    ("saved", "fix"),
    [
        ({}, ""),
        ({"dispatch.mode": '"tags"', "tags.cutoffs_s": "[3600, 60]"}, ""),  # there is no queue
        ({**FALLING, "tags.cutoffs_s": "[60, 3600]"}, ""),
        ({**FALLING, "dispatch.mode": '"fcfs"'}, ""),  # this is accepted
        (FALLING, "`lbctl config set tags.cutoffs_s --unset --cluster`"),
        ({**FALLING, "dispatch.name_jobs": '["x"]'}, "for all hosts"),
    ],
)
def test_settings_that_the_dispatcher_rejects_are_a_fault(saved, fix):
    found = list(queue_settings(Saved(Config(), saved)))
    assert [one.state for one in found] == (["fault"] if fix else [])
    if fix:
        assert "needs increasing cutoffs above 0: 3600, 60" in found[0].says
        assert fix in found[0].fix
