import itertools

import pytest

from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal
from lbd.web import sessions as s
from lbd.web.login_socket import Logins

ANN, BOB = s.User(1000, "ann"), s.User(1001, "bob")


@pytest.fixture
def sessions():
    numbers = itertools.count()
    return s.Sessions(lambda: f"secret{next(numbers)}")


def test_a_link_signs_in_once(sessions):
    token = sessions.link(ANN, 0.0)
    secret = sessions.sign_in(token, 1.0)
    assert sessions.find(secret, 2.0).user == ANN
    assert sessions.sign_in(token, 1.0) is None
    assert sessions.sign_in("made up", 1.0) is None
    assert sessions.find(token, 2.0) is None


def test_a_link_is_too_old(sessions):
    token = sessions.link(ANN, 0.0)
    assert sessions.sign_in(token, s.LINK_S) is None


def test_neither_links_nor_sessions_are_kept_as_they_are(sessions):
    token = sessions.link(ANN, 0.0)
    secret = sessions.sign_in(sessions.link(ANN, 0.0), 0.0)
    kept = f"{vars(sessions)}"
    assert f"{token}'" not in kept
    assert f"{secret}'" not in kept


def test_a_session_expires(sessions):
    secret = sessions.sign_in(sessions.link(ANN, 0.0), 0.0)
    key = sessions.find(secret, s.IDLE_S - 1).key
    assert sessions.find(secret, 2 * s.IDLE_S - 2) is not None  # it was used
    assert sessions.is_open(key, 3 * s.IDLE_S - 3)  # this does not count as use
    assert sessions.find(secret, 3 * s.IDLE_S - 1) is None
    secret = sessions.sign_in(sessions.link(ANN, 0.0), 0.0)
    for step in range(1, int(s.SESSION_S / s.IDLE_S) * 2):
        assert sessions.find(secret, step * s.IDLE_S / 2) is not None
    assert sessions.find(secret, s.SESSION_S) is None


def test_signing_out_ends_the_session(sessions):
    secret = sessions.sign_in(sessions.link(ANN, 0.0), 0.0)
    sessions.sign_out(sessions.find(secret, 1.0).key)
    assert sessions.find(secret, 1.0) is None


def test_the_oldest_sessions_of_a_user_make_way_and_others_stay(sessions):
    bobs = sessions.sign_in(sessions.link(BOB, 0.0), 0.0)
    first_link = sessions.link(ANN, 0.0)
    for _ in range(s.LINKS_OF_USER_MAX):
        sessions.link(ANN, 0.0)
    assert sessions.sign_in(first_link, 0.0) is None
    secrets = [
        sessions.sign_in(sessions.link(ANN, 0.0), 0.0) for _ in range(s.SESSIONS_OF_USER_MAX + 1)
    ]
    assert sessions.find(secrets[0], 1.0) is None
    assert sessions.find(secrets[1], 1.0) is not None
    assert sessions.find(bobs, 1.0) is not None


def test_all_users_together_are_bounded(sessions):
    for uid in range(s.SESSIONS_MAX):
        sessions.sign_in(sessions.link(s.User(uid, ""), 0.0), 0.0)
    token = sessions.link(s.User(5000, ""), 0.0)
    with pytest.raises(s.TooMany):
        sessions.sign_in(token, 0.0)
    for uid in range(s.SESSIONS_MAX):
        sessions.link(s.User(uid, ""), 0.0)
    with pytest.raises(s.TooMany):
        sessions.link(s.User(5001, ""), 0.0)


@pytest.mark.parametrize(
    ("given", "expected", "is_it"),
    [
        ("x", "x", True),
        ("", "", False),
        ("y", "x", False),
        ("", "x", False),
        ("\udc80ü", "x", False),
    ],
)
def test_csrf(given, expected, is_it):
    assert s.is_csrf(given, expected) == is_it


async def test_only_its_user_signs_in_to_a_users_page(sessions):
    logins = Logins(sessions, "http://127.0.0.1:1/", lambda: 0.0, 1000)
    found = await logins.handle({"op": "login"}, Caller(1, 1000, 1000))
    assert sessions.sign_in(found["url"].partition("token=")[2], 1.0)
    for caller in (Caller(1, 1001, 1001), Caller(1, 0, 0)):
        with pytest.raises(Refusal, match="acts only as that user"):
            await logins.handle({"op": "login"}, caller)
    with pytest.raises(Refusal):
        await logins.handle({"op": "other"}, Caller(1, 1000, 1000))


async def test_everybody_signs_in_to_the_page_of_root_as_themselves(sessions):
    logins = Logins(sessions, "http://127.0.0.1:1/", lambda: 0.0, None)
    found = await logins.handle({"op": "login", "uid": 0}, Caller(1, 54321, 1))
    secret = sessions.sign_in(found["url"].partition("token=")[2], 1.0)
    assert sessions.find(secret, 1.0).user == s.User(54321, "54321")
