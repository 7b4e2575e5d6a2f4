"""Who counts as an administrator."""

from lbd.config.access import AdminConfig
from lbd.local import admins
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.late_answers import LateAnswers


def test_administrators_are_named_or_in_a_named_group(monkeypatch):
    monkeypatch.setattr(admins, "UIDS", LateAnswers({"ann": 7}.__getitem__))
    monkeypatch.setattr(admins, "GIDS", LateAnswers({"ops": 70}.__getitem__))
    found = Admins(AdminConfig(users=("gone", "ann"), groups=("ops", "gone")))
    callers = (7, 1), (8, 1), (8, 70), (8, 1, (2, 70)), (8, 1, (2, 3))
    included = [found.include(Caller(1, *caller)) for caller in callers]
    assert included == [True, False, True, True, False]
