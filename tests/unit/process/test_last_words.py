"""Why a daemon could not continue, for a client that finds it silent."""

import os

from lbd.process import last_words


def test_the_message_exists_until_the_daemon_is_ready_again(tmp_path):
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


def test_a_missing_directory_causes_no_further_error(tmp_path):
    last_words.leave(str(tmp_path / "gone"), "lim", "why")
    assert last_words.read(str(tmp_path / "gone"), "lim") == ""


def test_what_is_no_file_is_not_read(tmp_path):
    """The daemons' account may write there, and root's `lbctl doctor` reads it."""
    os.mkfifo(tmp_path / "lim.ended")
    secret = tmp_path / "of root"
    secret.write_text("secret")
    (tmp_path / "lbm.ended").symlink_to(secret)
    assert [last_words.read(str(tmp_path), daemon) for daemon in ("lim", "lbm")] == ["", ""]
