"""A slow user database delays nobody: its last answer counts."""

import pwd
import threading

import pytest

from lbd.local import late_answers
from lbd.local.late_answers import AT_ONCE, LateAnswers


class Database:
    """Answers about each name once the test lets it."""

    def __init__(self):
        self.uids, self.asked = {"ann": 1}, []
        self.may = threading.Event()

    def find(self, name):
        self.asked.append(name)
        assert self.may.wait(20)
        return self.uids[name]


@pytest.fixture
def database():
    one = Database()
    yield one
    one.may.set()
    answered()


@pytest.fixture
def clock(monkeypatch):
    now_s = [1000.0]
    monkeypatch.setattr(late_answers.time, "monotonic", lambda: now_s[0])
    return now_s


def answered():
    for thread in threading.enumerate():
        if thread.name == "user database":
            thread.join()


def test_the_last_answer_counts_until_there_is_another(database, clock):
    """The event loop of a daemon waited for LDAP once a minute."""
    answers = LateAnswers(database.find)
    database.may.set()
    assert [answers.get("ann"), answers.get("nobody")] == [1, None]
    database.may.clear()
    database.uids = {"ann": 2}
    clock[0] += late_answers.KNOWN_S
    assert [answers.get("ann") for _ in range(3)] == [1, 1, 1]
    assert database.asked == ["ann", "nobody", "ann"]
    database.may.set()
    answered()
    assert answers.get("ann") == 2
    assert database.asked == ["ann", "nobody", "ann"]


def test_who_asks_first_waits_for_a_while_and_nobody_after_it(database):
    answers = LateAnswers(database.find, first_s=0.01)
    assert [answers.get("ann") for _ in range(3)] == [None] * 3
    assert database.asked == ["ann"]
    database.may.set()
    answered()
    assert answers.get("ann") == 1


def test_a_few_names_are_asked_about_at_once(database):
    answers = LateAnswers(database.find, first_s=0.0)
    for number in range(3 * AT_ONCE):
        answers.get(f"user{number}")
    database.may.set()
    answered()
    assert len(database.asked) == AT_ONCE


def test_a_name_is_looked_up_again_once_a_thread_can_be_started(database, monkeypatch):
    """Otherwise its last answer counted for ever after somebody had filled the process table."""

    def no_room(_thread):
        raise RuntimeError("can't start new thread")

    answers = LateAnswers(database.find)
    database.may.set()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_room)
        assert answers.get("ann") is None
    assert answers.get("ann") == 1


def test_an_impossible_name_belongs_to_nobody():
    answers = LateAnswers(lambda name: pwd.getpwnam(name).pw_uid if name < " " else 1)
    for number in range(AT_ONCE):
        assert answers.get(f"\0{number}") is None
    assert answers.get("ann") == 1
