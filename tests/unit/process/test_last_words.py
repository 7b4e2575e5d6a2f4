"""Why a daemon could not go on, for who finds that it does not answer."""

import os

from lbd.process import last_words


def test_they_are_there_until_the_daemon_is_ready_again(tmp_path):
    place = str(tmp_path)
    assert last_words.read(place, "dispatcher") == ""
    last_words.leave(place, "dispatcher", "the store\ndoes not answer")
    assert last_words.read(place, "dispatcher") == "the store does not answer"
    assert last_words.read(place, "lim") == ""
    os.utime(tmp_path / "dispatcher.ended", (50.0, 50.0))
    assert last_words.read(place, "dispatcher", since_s=51.0) == ""
    last_words.forget(place, "dispatcher")
    last_words.forget(place, "dispatcher")
    assert last_words.read(place, "dispatcher") == ""


def test_a_place_that_is_gone_is_no_trouble_of_its_own(tmp_path):
    last_words.leave(str(tmp_path / "gone"), "lim", "why")
    assert last_words.read(str(tmp_path / "gone"), "lim") == ""
