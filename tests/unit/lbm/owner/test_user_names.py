"""Names of this host's users: cached for a minute, and only if they are unambiguous."""

import asyncio
import pwd
import threading

import pytest

from lbd.keeper.gate import find_account
from lbd.lbm.owner.accounts import LookUps, UserNames, find_name
from lbd.process.timed_cache import KNOWN_MAX

TEST_S = 10.0


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


async def learnt(names, uid):
    await names.learn(uid)
    return names.of(uid)


async def test_a_number_that_was_given_to_another_is_theirs_within_a_minute(database, names):
    assert await learnt(names, 2002) == "bob"
    database.users = {2002: "carol", 2003: "bob"}
    database.now_s += 59.0
    assert await learnt(names, 2002) == "bob"
    database.now_s += 2.0
    assert await learnt(names, 2002) == "carol"
    database.users = {}
    database.now_s += 61.0
    assert await learnt(names, 2002) == "2002"


async def test_a_user_who_was_not_found_is_looked_up_again_soon(database, names):
    database.users = {}
    assert await learnt(names, 2002) == "2002"
    database.users = {2002: "bob"}
    database.now_s += 6.0
    assert await learnt(names, 2002) == "bob"


async def test_a_name_that_was_learnt_is_there_until_the_question_is_answered(database, names):
    """Nothing else runs while a name is looked up in the event loop."""
    for known, uid in (("bob", 2002), ("7777", 7777)):
        await names.learn(uid)
        asked = database.asked
        database.now_s += 20.0
        assert names.of(uid) == known
        assert database.asked == asked


async def test_known_names_are_not_looked_up_again(database, names):
    await names.learn(2002)
    await names.learn(2002)
    assert names.of(2002) == "bob"
    assert database.asked == 1


def test_a_name_that_belongs_to_another_user_counts_for_nothing(monkeypatch):
    """With two sources of accounts for one name, ann in LDAP is 5000, in /etc/passwd 1001."""
    local = pwd.struct_passwd(("ann", "x", 1001, 1001, "", "/", "/bin/sh"))
    distant = pwd.struct_passwd(("ann", "x", 5000, 5000, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {1001: local, 5000: distant}.__getitem__)
    monkeypatch.setattr(pwd, "getpwnam", {"ann": local}.__getitem__)
    assert find_name(1001) == "ann"
    assert find_name(5000) is None
    assert find_name(7) is None


async def test_unknown_names_push_nobody_out_who_is_known(database):
    look_ups = LookUps(database.find, database.clock_s)
    await look_ups.look_up(2002, "h1")
    for uid in range(10_000, 10_000 + 2 * KNOWN_MAX):
        await look_ups.look_up(uid, "h1")
    asked = database.asked
    await look_ups.look_up(2002, "h1")
    assert database.asked == asked


async def test_who_asks_for_many_names_of_a_slow_database_holds_up_nobody_else():
    answers = threading.Event()

    def find(name):
        if name != "bob":
            answers.wait(TEST_S)
        return None if name != "bob" else "found"

    look_ups = LookUps(find)
    flood = [
        asyncio.create_task(look_ups.look_up(f"nobody-{number}", f"h{number % 4}"))
        for number in range(200)
    ]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(TEST_S):
            assert await look_ups.look_up("bob", "h9") == "found"
            assert await asyncio.to_thread(lambda: "else") == "else"  # nor other work in threads
    finally:
        answers.set()
    assert await asyncio.gather(*flood) == [None] * 200


async def test_accounts_that_were_not_found_are_looked_up_again_soon():
    now_s = [0.0]
    accounts = LookUps(find_account, lambda: now_s[0])
    assert await accounts.look_up("no-such-user-here", "h1") is None
    assert await accounts.look_up("root", "h1") is not None
    now_s[0] = 10.0
    assert accounts.known("no-such-user-here") is None
    now_s[0] = 50.0
    assert accounts.known("root") is not None
