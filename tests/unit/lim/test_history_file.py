from lbd.lim.history_file import NAME, HistoryFile


def test_a_new_file_is_created_and_belongs_to_its_owner_only(tmp_path):
    for text in ("a", "b"):
        HistoryFile(tmp_path, 100).write(text)
    assert (tmp_path / NAME).read_text() == "b\n"
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600


def test_its_size_is_bounded(tmp_path, caplog):
    history = HistoryFile(tmp_path, 10)
    for _ in range(5):
        history.write("1234")
    assert (tmp_path / NAME).read_text() == "1234\n1234\n"
    (line,) = caplog.messages
    assert line.endswith("it has reached lim.history_bytes")


def test_the_previous_lim_may_still_write_its_own(tmp_path):
    before = HistoryFile(tmp_path, 100)
    before.write("a")
    HistoryFile(tmp_path, 100).write("b")
    before.write("a")
    assert (tmp_path / NAME).read_text() == "b\n"


def test_an_unwritable_file_is_one_line(tmp_path, caplog):
    (tmp_path / NAME).mkdir()
    history = HistoryFile(tmp_path, 100)
    history.write("a")
    assert len(caplog.messages) == 1


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / NAME).symlink_to(tmp_path / "other")
    HistoryFile(tmp_path, 100).write("a")
    assert not (tmp_path / "other").exists()
