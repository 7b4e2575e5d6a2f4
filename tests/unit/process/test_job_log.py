"""Log lines about jobs: each carries its job's id, and the most recent ones can be queried."""

import logging
import time
from enum import Enum

import pytest

from lbd.lbm.core.execution_events import NotStarted
from lbd.process.job_log import (
    NEWS_AT_ONCE,
    SHOWN_LINES,
    JobLog,
    Line,
    RecentLines,
    concerns,
    newest,
    text_of,
)


def line(number, job="7", text="", unix_s=0.0):
    return Line(unix_s, "debug", job, text or str(number))


def texts(recent, job="7", unix_s=0.0):
    return [one.text for one in recent.of(job, unix_s)[0]]


@pytest.mark.parametrize(
    ("job", "asked", "is_for"),
    [
        ("12", "12", True),
        ("12_7", "12", True),
        ("12", "12_7", True),
        ("12_8", "12_7", False),
        ("1", "12", False),
        ("12", "1", False),
        ("h1-26", "h1-26", True),
        ("h1-2", "h1-26", False),
        ("12", "12_7-3", False),  # a plain command of a host named 12_7
        ("12_x", "12", False),
        ("", "", True),
        ("", "12", False),
    ],
)
def test_which_lines_a_job_gets(job, asked, is_for):
    assert concerns(job, asked) is is_for


def test_only_the_most_recent_lines_are_kept():
    recent = RecentLines(lines=3)
    for number in range(5):
        recent.add(line(number))
    assert texts(recent) == ["2", "3", "4"]


def test_old_lines_are_not_shown():
    recent = RecentLines(age_s=60.0)
    recent.add(line(1, unix_s=100.0))
    assert texts(recent, unix_s=160.0) == ["1"]
    assert texts(recent, unix_s=160.1) == []


def test_an_answer_has_the_newest_lines_and_says_that_there_are_others():
    many = [line(number) for number in range(SHOWN_LINES + 1)]
    shown, is_cut = newest(many)
    assert (len(shown), shown[-1], is_cut) == (SHOWN_LINES, many[-1], True)
    assert newest(many[1:]) == (many[1:], False)
    long = [line(0, text="x" * 1000)] * 100
    shown, is_cut = newest(long)
    assert 0 < len(shown) < 100
    assert is_cut
    assert newest([]) == ([], False)


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "lbd.test")
    return JobLog(logging.getLogger("lbd.test"), RecentLines())


def test_what_is_not_logged_now_is_kept_all_the_same(log, caplog):
    log.debug("12_7", "attempt %d sent to %s", 2, "h3")
    assert not caplog.records
    log.info("12_7", "ended")
    (record,) = caplog.records
    assert (record.job, record.funcName, text_of(record)) == (
        "12_7", "test_what_is_not_logged_now_is_kept_all_the_same", "job 12_7: ended",
    )  # fmt: skip
    kept, is_cut = log._recent.of("12", record.created)
    assert [(one.level, one.job, one.text) for one in kept] == [
        ("debug", "12_7", "attempt 2 sent to h3"), ("info", "12_7", "ended"),
    ]  # fmt: skip
    assert not is_cut


def test_too_much_news_is_only_kept(log, caplog, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    for number in range(int(NEWS_AT_ONCE) + 5):
        log.news("7", "lost %d", number)
    assert len(caplog.records) == NEWS_AT_ONCE
    last = log._recent.of("7", caplog.records[-1].created)[0][-1]
    assert (last.level, last.text) == ("debug", f"lost {number}")


def test_names_of_jobs_and_hosts_stay_within_their_line(log, caplog):
    log.warning("h1-1\n\x1b[2J" + "x" * 1000, "%s", "100 %s\n\x1b[2J" + "y" * 10_000)
    (record,) = caplog.records
    assert record.job.isprintable()
    assert len(record.job) <= 128
    ((kept,), _) = log._recent.of(record.job, record.created)
    assert kept.text.isprintable()
    assert len(kept.text) <= 500
    assert kept.text.startswith("100 %s ?[2J")


def test_an_error_is_kept_without_its_traceback_and_logged_with_it(log, caplog):
    log.error("h1-1", "its event is lost", problem=ValueError("no"))
    assert caplog.records[0].exc_info[0] is ValueError
    (kept,) = log._recent._kept
    assert kept.text == "its event is lost: ValueError('no')"


def test_lines_about_no_job_are_only_logged(log, caplog):
    log.info("", "a client is given up")
    assert text_of(caplog.records[0]) == "a client is given up"
    assert not log._recent._kept


class Phase(Enum):
    SPAWNING, OVER = "spawning", "over"


def test_a_transition_names_both_states_and_the_event(log):
    event = NotStarted("no such file", "exec")
    log.step("h1-1", event, Phase.SPAWNING, Phase.OVER, "attempt 2: ")
    log.step("h1-1", event, Phase.OVER, Phase.OVER)
    (kept,) = log._recent._kept
    assert kept.text == "attempt 2: not started (no such file), spawning → over"
