"""Names of this host's users: believed for a minute, and only if they are theirs alone."""

import pwd
import time

import pytest

from lbd.lbm.owner.accounts import AccountCache, UserNames, find_name


class Database:
    """Users by number, and a clock."""

    def __init__(self, **users):
        self.users = {number: name for name, number in users.items()}
        self.now_s = 1000.0
        self.asked = 0

    def find(self, uid):
        self.asked += 1
        return self.users.get(uid)

    def clock_s(self):
        return self.now_s


@pytest.fixture
def database():
    return Database(bob=2002)


@pytest.fixture
def names(database):
    return UserNames(database.find, database.clock_s)


def test_a_number_that_was_given_to_another_is_theirs_within_a_minute(database, names):
    assert names.of(2002) == "bob"
    database.users = {2002: "carol", 2003: "bob"}
    database.now_s += 59.0
    assert names.of(2002) == "bob"
    database.now_s += 2.0
    assert names.of(2002) == "carol"


def test_who_was_not_found_is_looked_for_again_soon(database, names):
    database.users = {}
    assert names.of(2002) == "2002"
    database.users = {2002: "bob"}
    database.now_s += 6.0
    assert names.of(2002) == "bob"


async def test_what_was_learnt_is_not_asked_for_again(database, names):
    await names.learn(2002)
    await names.learn(2002)
    assert names.of(2002) == "bob"
    assert database.asked == 1


def test_a_name_that_is_another_users_counts_for_nothing(monkeypatch):
    """Two sources of accounts, one name: LDAP's ann has 5000, that of /etc/passwd 1001."""
    local = pwd.struct_passwd(("ann", "x", 1001, 1001, "", "/", "/bin/sh"))
    distant = pwd.struct_passwd(("ann", "x", 5000, 5000, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {1001: local, 5000: distant}.__getitem__)
    monkeypatch.setattr(pwd, "getpwnam", {"ann": local}.__getitem__)
    assert find_name(1001) == "ann"
    assert find_name(5000) is None
    assert find_name(7) is None


async def test_accounts_that_were_not_found_are_looked_for_again_soon(monkeypatch):
    now_s = time.monotonic()
    cache = AccountCache()
    assert await cache.look_up("no-such-user-here") is None
    assert await cache.look_up("root") is not None
    assert cache._known.get("no-such-user-here", now_s + 10.0) is None
    assert cache._known.get("root", now_s + 50.0) is not None
