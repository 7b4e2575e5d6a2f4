"""Who counts as an administrator."""

import grp
import pwd
from types import SimpleNamespace

from lbd.config.access import AdminConfig
from lbd.local import admins
from lbd.local.admins import Admins
from lbd.local.caller import Caller


def test_however_often_users_ask_the_user_database_is_asked_once_a_minute(monkeypatch):
    asked, period = [], iter((1e9, 1e9, 1e9, 1e9, 1e9 + admins.KNOWN_S, 1e9 + admins.KNOWN_S))
    monkeypatch.setattr(admins, "time", SimpleNamespace(monotonic=lambda: next(period)))

    def find(name):
        asked.append(name)
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", find)
    monkeypatch.setattr(grp, "getgrnam", find)
    found = Admins(AdminConfig(users=("slow-ldap-user",), groups=("slow-ldap-group",)))
    for _ in range(3):
        assert not found.include(Caller(1, 7, 7))
    assert asked == 2 * ["slow-ldap-user", "slow-ldap-group"]
