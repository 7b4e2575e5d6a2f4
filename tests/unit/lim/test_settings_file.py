"""The settings on disk that outlive all LIMs."""

import json

import pytest

from lbd.lim.core.messages import COUNTER_MAX, DRAINS_MAX, DrainNote, PastDrain, Settings
from lbd.lim.settings_file import SettingsFile

NOTES = {"h3": DrainNote("disk \u2020 sdb", "ann", 1.5e9), "h5": DrainNote("", "0", 7.0)}
PAST = (PastDrain("h4", DrainNote("fan", "ann", 5.0), "bob", 6.5),)
KEPT = Settings(
    7, "h2", "NOLB", {"lim.min_gain": 0.5}, drains={"h3": True, "h4": False}, drain_notes=NOTES,
    past_drains=PAST, saved={"lim.algorithm": "LOWEST"},
)  # fmt: skip


NOTE = {"reason": "", "by": "ann", "since": 1.0}


def noted(host="h3", **wrong):
    """Returns a file with one note that has something wrong."""
    return json.dumps({"counter": 1, "drains": {}, "notes": {host: NOTE | wrong}})


def past(**wrong):
    one = NOTE | {"host": "h4", "until": 2.0, "until_by": "bob"} | wrong
    return json.dumps({"counter": 1, "drains": {}, "past": [one]})


def saved(value):
    return json.dumps({"counter": 1, "drains": {}, "saved": value})


def test_only_lasting_settings_are_kept_with_their_number(tmp_path):
    file = SettingsFile(tmp_path)
    assert file.settings() == Settings()
    file.keep_settings(KEPT)
    assert file.settings() == Settings(
        7, drains={"h3": True, "h4": False}, drain_notes=NOTES, past_drains=PAST,
        saved={"lim.algorithm": "LOWEST"},
    )  # fmt: skip
    assert file.settings() == KEPT.lasting


def test_others_can_follow_even_the_highest_number(tmp_path):
    file = SettingsFile(tmp_path)
    file.keep_settings(Settings(COUNTER_MAX, drains={"h3": True}))
    assert file.settings() == Settings(1, drains={"h3": True})


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "7", "{}", '{"counter": 1}', '{"counter": "1", "drains": {}}', "[" * 99999,
        '{"counter": 1, "drains": {"h3": 1}}', '{"counter": 1, "drains": {"../x": true}}',
        '{"counter": 1, "drains": {}, "notes": []}',
        '{"counter": 1, "drains": {}, "notes": {"h3": 1}}',
        noted(reason="\x1b[2J"), noted(reason="x" * 161), noted(by="x" * 65), noted(by=7),
        '{"counter": 1, "drains": {}, "past": {}}', past(until="now"), past(until_by="x" * 65),
        past(host="../x"), past(reason=7), saved([]), saved({"lim.min_gain": 0.5}),
        saved({"lim.index": "\x1b"}), saved({"lim.index": "x" * 201}),
        saved({f"lim.x{n}": "1" for n in range(129)}),
        noted(since=float("nan")), noted(since="now"), noted("../x"),
        json.dumps({"counter": 1, "drains": {}, "notes": {f"h{n}": NOTE for n in range(129)}}),
        json.dumps({"counter": 1, "drains": {f"h{n}": True for n in range(DRAINS_MAX + 1)}}),
    ],
    ids=range(31),
)  # fmt: skip
def test_a_damaged_file_is_ignored(tmp_path, text, caplog):
    (tmp_path / "settings.json").write_text(text)
    assert SettingsFile(tmp_path).settings() == Settings()
    assert "ignored" in caplog.text


def test_the_valid_forms_of_these_files_are_read(tmp_path):
    for text in (noted(), past(), saved({"lim.min_gain": "0.5"})):
        (tmp_path / "settings.json").write_text(text)
        assert SettingsFile(tmp_path).settings().counter == 1


def test_a_failure_to_save_is_reported_and_the_lim_continues(tmp_path, caplog):
    file = SettingsFile(tmp_path / "gone")
    file.keep_settings(KEPT)
    file.keep_drained(True)
    assert f"cannot be saved across restarts: {file.path}: No such file" in caplog.text
    gone = "No such file or directory"
    assert file.unsaved == f"{file.path}: {gone}; {tmp_path}/gone/drained: {gone}"
    file.path.parent.mkdir()
    file.keep_settings(KEPT)
    file.keep_drained(True)
    assert file.unsaved == ""


def test_what_could_not_be_saved_is_saved_later(tmp_path, caplog):
    """The old settings stayed on disk after there was space again, and came back with a restart."""
    file = SettingsFile(tmp_path / "gone")
    file.keep_settings(KEPT)
    file.keep_drained(True)
    said = len(caplog.records)
    file.try_again()
    assert len(caplog.records) == said, "each fault is logged once"
    file.path.parent.mkdir()
    file.try_again()
    assert (file.settings().saved, file.drained(), file.unsaved) == (KEPT.saved, True, "")
    file.path.unlink()
    file.try_again()
    assert not file.path.exists(), "nothing is left to be saved"


def test_a_file_of_a_later_release_is_refused_in_one_line_and_not_overwritten(tmp_path, caplog):
    file = SettingsFile(tmp_path)
    later = json.dumps({"schema": 2, "counter": 9, "drains": {}, "saved": {"lim.algorithm": "X"}})
    file.path.write_text(later)
    assert file.settings() == Settings()
    assert "later release of lbd (schema 2, ours is 1)" in caplog.text
    file.keep_settings(KEPT)
    assert file.path.read_text() == later
    assert "is of a later release" in caplog.text


def test_a_file_of_the_previous_release_is_read_and_written_as_ours(tmp_path):
    file = SettingsFile(tmp_path)
    file.path.write_text('{"counter": 3, "drains": {"h3": true}}')
    assert file.settings() == Settings(3, drains={"h3": True})
    file.keep_settings(KEPT)
    assert json.loads(file.path.read_text())["schema"] == 1


@pytest.mark.parametrize(("made_in", "is_kept"), [("", False), ("c1", True), ("c2", False)])
def test_a_host_that_joins_brings_no_settings_of_its_own(tmp_path, made_in, is_kept):
    """Their number can be the higher one: then they replaced those of all hosts."""
    SettingsFile(tmp_path, made_in).keep_settings(KEPT)
    file = SettingsFile(tmp_path, "c1")
    assert file.drop_others() is not is_kept
    assert file.settings() == (KEPT.lasting if is_kept else Settings())
    assert not file.drop_others()


def test_a_damaged_file_that_does_not_say_where_it_was_made_is_left_alone(tmp_path):
    file = SettingsFile(tmp_path, "c1")
    file.path.write_text('{"counter": "3"}')
    assert not file.drop_others()
    assert file.path.read_text() == '{"counter": "3"}'
