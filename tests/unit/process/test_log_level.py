"""A daemon's log level follows a file that the LIM of its host writes."""

import logging

import pytest

from lbd.process import log_level
from lbd.process.log_level import LevelFile


@pytest.fixture(autouse=True)
def levels():
    loggers = logging.getLogger("lbd"), logging.getLogger()
    before = [logger.level for logger in loggers]
    yield loggers
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


class Loop:
    """A loop in which only the last timer counts."""

    def call_later(self, _seconds, turn):
        self.turn = turn

    def time(self):
        return 0.0


@pytest.fixture
def loop():
    return Loop()


def test_the_level_from_the_lim_is_applied_and_stays(tmp_path, levels, loop, caplog):
    ours, root = levels
    file = LevelFile(str(tmp_path))
    log_level.follow(loop, str(tmp_path), "warning")
    assert (ours.level, root.level) == (logging.WARNING, logging.WARNING)
    file.say("debug")
    loop.turn()
    # libraries log no more than before
    assert (ours.level, root.level) == (logging.DEBUG, logging.INFO)
    file.take_back()  # the LIM is being restarted
    loop.turn()
    assert ours.level == logging.DEBUG
    file.say("warning")
    (tmp_path / "log.level").write_text("loud")
    loop.turn()
    assert ours.level == logging.DEBUG
    assert caplog.messages == ["log.level = debug"]


def test_a_level_set_at_the_start_overrules_the_file(tmp_path, levels, loop):
    LevelFile(str(tmp_path)).say("debug")
    log_level.follow(loop, str(tmp_path), "info")
    assert levels[0].level == logging.DEBUG


def test_a_reduction_is_still_logged(tmp_path, loop, caplog):
    log_level.follow(loop, str(tmp_path), "info")
    LevelFile(str(tmp_path)).say("warning")
    loop.turn()
    assert caplog.messages == ["log.level = warning"]


@pytest.mark.parametrize("data", [b"", b"loud", b"debug" * 1000, b"\xff\xfe", b"debug\n"])
def test_an_invalid_file_has_no_effect(tmp_path, data):
    (tmp_path / "log.level").write_bytes(data)
    assert LevelFile(str(tmp_path)).read() == ""


def test_a_full_disk_is_no_reason_to_stop(tmp_path):
    file = LevelFile(str(tmp_path / "nowhere"))
    file.say("debug")
    file.take_back()
    assert file.read() == ""


def test_an_unchanged_file_is_not_read_again(tmp_path):
    said, file = LevelFile(str(tmp_path)), LevelFile(str(tmp_path))
    said.say("debug")
    assert [file.read(), file.read()] == ["debug", ""]
    said.say("info")
    assert [file.read(), file.read()] == ["info", ""]
