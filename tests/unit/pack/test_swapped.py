"""Another user who may write into the directory too swaps what is in it between --send and
--fetch."""

import io
import os
import stat
from types import SimpleNamespace

import pytest

from lbd.client.complaints import Trouble
from lbd.client.staging import Staging
from lbd.pack import places, unpack
from lbd.pack.pack import Allowance, BadPack, Packer
from lbd.pack.places import note, open_way, pack_notes, read_notes
from lbd.pack.unpack import Fetching

PLENTY = 1 << 20, 100


class Command:
    """One with --send and --fetch, from its start on."""

    def __init__(self, here, send, fetch):
        os.chdir(here)
        self._here = here
        self.staging = Staging(SimpleNamespace(send=send, fetch=fetch), os.fsencode(here))

    def send(self):
        """Returns what is read by it."""
        output = io.BytesIO()
        self.staging._pack(output, Allowance(*PLENTY))
        return output.getvalue()

    def back(self):
        """What it has made comes back: each listed path as a directory, unless it is a report."""
        there = self._here.parent / "there"
        for path in (there / os.fsdecode(path) for path in self.staging.fetch):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.name == "report":
                path.write_text("new")
            else:
                path.mkdir(exist_ok=True)
                (path / "new").write_text("new")
        output = io.BytesIO()
        os.chdir(there)
        Packer(output, Allowance(*PLENTY)).pack(self.staging.fetch)
        os.chdir(self._here)
        output.seek(0)
        unpacker = getattr(self.staging, "_unpack", self.staging._fetching.unpack)
        unpacker(output, Allowance(*PLENTY), all_there=True)


def tree(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


@pytest.fixture
def project(tmp_path):
    """A directory where others may write, with a private one in it."""
    here = tmp_path / "here"
    (here / "w/data").mkdir(parents=True)
    (here / "data").mkdir()
    (here / "data/old").touch()
    (here / "w/data/old").touch()
    (here / "thesis/data").mkdir(parents=True)
    (here / "thesis/chapter").write_text("precious")
    (here / "thesis/report").write_text("precious")
    (here / "thesis/data/secret").write_text("SECRET")
    (here / "thesis").chmod(0o700)
    here.chmod(0o777)
    return here


def swap(here, name, other):
    (here / name).rename(here / f"{name}.orig")
    (here / other).rename(here / name)


def test_another_directory_is_put_aside_not_removed(project, capfd):
    command = Command(project, ["data"], ["data"])
    command.send()
    swap(project, "data", "thesis")
    command.back()
    assert tree(project / "data") == {"new"}
    (aside,) = project.glob("data.lbd-old-*")
    assert (aside / "chapter").read_text() == "precious"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o700
    line = f"lbrun: --fetch data is not what it was; that is {aside.name} now\n"
    assert capfd.readouterr().err == line
    assert not list(project.glob(".lbd-*"))


def test_one_that_comes_in_the_last_moment_is_put_aside(project, monkeypatch):
    command = Command(project, ["data"], ["data"])
    command.send()
    rename_as = unpack.rename_as

    def act(how, name, *rest):
        if how == unpack.RENAME_EXCHANGE:
            swap(project, "data", "thesis")
        rename_as(how, name, *rest)

    monkeypatch.setattr(unpack, "rename_as", act)
    command.back()
    assert tree(project / "data") == {"new"}
    (aside,) = project.glob("data.lbd-old-*")
    assert (aside / "chapter").read_text() == "precious"


def test_it_stays_where_it_arrived_if_it_can_be_put_nowhere(project, monkeypatch):
    command = Command(project, ["data"], ["data"])
    command.send()
    rename_as, move = unpack.rename_as, unpack.move

    def act(how, *rest):
        if how == unpack.RENAME_EXCHANGE:
            swap(project, "data", "thesis")
        rename_as(how, *rest)

    def fails(name, source, moved, target, **how):
        if b".lbd-old-" in moved:
            raise OSError(5, "no such luck")
        move(name, source, moved, target, **how)

    monkeypatch.setattr(unpack, "rename_as", act)
    monkeypatch.setattr(unpack, "move", fails)
    with pytest.raises(BadPack, match=r"^data: what had this name is in \.lbd-"):
        command.back()
    (kept,) = project.glob(".lbd-*/kept")
    assert (kept / "chapter").read_text() == "precious"


def test_a_file_system_that_cannot_exchange_loses_nothing(project, monkeypatch):
    command = Command(project, ["data"], ["data"])
    command.send()
    move = unpack.move

    def act(name, source, moved, target, **how):
        if moved.startswith(b".lbd-old"):
            swap(project, "data", "thesis")
        move(name, source, moved, target, **how)

    monkeypatch.setattr(unpack.ctypes, "CDLL", lambda _, **__: None)
    monkeypatch.setattr(unpack, "move", act)
    command.back()
    assert tree(project / "data") == {"new"}
    (aside,) = project.glob("data.lbd-old-*")
    assert (aside / "chapter").read_text() == "precious"


@pytest.mark.parametrize("fetch", ["w/data", "w/report"])
def test_nothing_is_written_through_a_link_of_anothers(project, tmp_path, fetch):
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    (home / "data/mine").touch()
    (home / "report").write_text("mine")
    command = Command(project, ["w/data"], [fetch])
    command.send()
    (project / "w").rename(project / "w.orig")
    (project / "w").symlink_to(home)
    with pytest.raises(BadPack, match=rf"^{fetch}: w is a symbolic link in a directory where"):
        command.back()
    assert tree(home) == {"data/mine", "report"}
    assert (home / "report").read_text() == "mine"


@pytest.mark.parametrize("fetch", ["w/data", "w/report"])
def test_nor_into_another_directory_that_has_got_the_name(project, fetch):
    command = Command(project, ["w/data"], [fetch])
    command.send()
    swap(project, "w", "thesis")
    with pytest.raises(BadPack, match=rf"^{fetch}: w: another directory|^w: another directory"):
        command.back()
    assert tree(project / "w") == {"chapter", "report", "data/secret"}
    assert (project / "w/report").read_text() == "precious"


def test_nothing_is_replaced_in_a_directory_that_was_not_there_at_first(project):
    command = Command(project, [], ["out/report"])
    (project / "thesis").rename(project / "out")
    command.back()
    assert (project / "out/report").read_text() == "new"
    (aside,) = project.glob("out/report.lbd-old-*")
    assert aside.read_text() == "precious"


def test_nothing_is_read_through_a_link_of_anothers(project):
    """What was read came back to where the other could read it."""
    (project / "w").rename(project / "w.orig")
    (project / "w").symlink_to(project / "thesis")
    with pytest.raises(Trouble, match=r"^--send w/data: w is a symbolic link in a directory where"):
        Command(project, ["w/data"], ["w/data"]).send()
    with pytest.raises(Trouble, match=r"^--fetch w/report: w is a symbolic link in a directory"):
        Command(project, ["data"], ["w/report"])


def test_nor_from_a_directory_that_had_the_name_meanwhile(project):
    command = Command(project, ["w/data"], ["w/data"])
    swap(project, "w", "thesis")
    with pytest.raises(BadPack, match=r"^w: another directory has its name now"):
        command.send()
    command = Command(project, ["w/data"], ["w/data"])
    swap(project, "w/data", "data")
    with pytest.raises(BadPack, match=r"^w/data: another directory has its name now"):
        command.send()
    command = Command(project, ["w/data"], ["w/data"])
    assert b"SECRET" not in command.send()


def test_what_its_user_has_made_anew_is_sent_where_nobody_else_may_write(project):
    project.chmod(0o755)
    command = Command(project, ["w/data", "thesis"], ["w/data"])
    for name in ("w", "thesis"):
        (project / name).rename(project / f"{name}.orig")
    (project / "w/data").mkdir(parents=True)
    (project / "thesis").mkdir()
    (project / "thesis/later").write_text("LATER")
    assert b"LATER" in command.send()


def test_nor_does_it_come_back_once_the_name_is_another_directorys_again(project):
    swap(project, "w", "thesis")
    command = Command(project, ["w/data"], ["w/data"])
    command.send()
    (project / "w").rename(project / "thesis")
    with pytest.raises(BadPack, match="w: another directory has its name now"):
        command.back()  # into one that is made for it
    assert not tree(project / "w")


def test_own_links_are_followed_where_nobody_else_may_write(project, tmp_path):
    (tmp_path / "disk/w").mkdir(parents=True)
    (tmp_path / "disk/w/report").write_text("old")
    (project / "thesis/link").symlink_to("../w")
    (project / "thesis/far").symlink_to(tmp_path / "disk/w")
    os.chdir(project / "thesis")
    fetch = ["link/data", "far/report", "far/more/data"]
    command = Command(project / "thesis", ["link/data", "far/report"], fetch)
    assert command.send().count(b"report") == 0  # names are those given
    command.back()
    assert tree(project / "w") == {"data/new"}
    assert tree(tmp_path / "disk/w") == {"report", "more/data/new"}
    assert (tmp_path / "disk/w/report").read_text() == "new"


def test_links_in_a_circle_end(project):
    (project / "thesis/link").symlink_to("link")
    os.chdir(project / "thesis")
    with pytest.raises(OSError, match="Too many levels"):
        open_way(b"link/x")


def test_directories_are_made_as_given_not_in_a_link(project):
    (project / "thesis/link").symlink_to("none/at/all")
    os.chdir(project / "thesis")
    with pytest.raises(FileNotFoundError):
        open_way(b"link/a/x", make=True)
    os.close(open_way(b"a/b/x", make=True)[0])
    assert (project / "thesis/a/b").is_dir()
    assert not (project / "thesis/none").exists()


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o1777])
def test_without_an_attack_all_is_as_ever(project, capfd, mode):
    """Also the second time, over the first one's results."""
    project.chmod(mode)
    fetch = ["data", "w/data", "w/report", "made/report", "made/data", "report"]
    for number in range(2):
        send = ["data", "w", *(["made"] if number else [])]
        command = Command(project, send, fetch)
        command.send()
        command.back()
        found = tree(project) - {"thesis/chapter", "thesis/report", "thesis/data/secret"}
        assert found == {"data/new", "w/data/new", "w/report", "made/report", "made/data/new",
                         "report"}  # fmt: skip
    assert capfd.readouterr().err == ""


def test_what_its_own_user_put_there_meanwhile_is_put_aside(project, capfd):
    project.chmod(0o755)
    command = Command(project, ["data"], ["data"])
    command.send()
    (project / "data").rename(project / "first")
    (project / "data").mkdir()
    (project / "data/mine").touch()
    command.back()
    assert tree(project / "data") == {"new"}
    (aside,) = project.glob("data.lbd-old-*")
    assert tree(aside) == {"mine"}
    assert "is not what it was" in capfd.readouterr().err


def test_a_directory_above_may_be_made_anew_where_nobody_else_may_write(project):
    project.chmod(0o755)
    command = Command(project, ["w/data"], ["w/report"])
    command.send()
    (project / "w").rename(project / "w.orig")
    command.back()
    assert (project / "w/report").read_text() == "new"


def test_notes_last(project):
    """They are kept with a queued job; names with % are not known when it is queued."""
    os.chdir(project)
    paths = [b"data", b"w/data", b"new", b"none/new", b"w/out.%a", b"thesis/report"]
    noted = note(paths)
    assert [tuple(map(bool, one)) for one in noted] == [
        (True, True), (True, True), (True, False), (False, False), (True, False), (True, False)
    ]  # fmt: skip
    assert read_notes(pack_notes(noted)) == noted
    assert read_notes(b"") == []
    assert len(pack_notes(noted)) < 128 * len(noted)


def old_note(here, is_noted):
    os.chdir(here.parent / "there")
    output = io.BytesIO()
    Packer(output, Allowance(*PLENTY)).pack([b"data"])
    output.seek(0)
    os.chdir(here)
    noted = note([b"data"]) if is_noted else []
    return Fetching([b"data"], [b"data"], 7, noted).unpack(
        output, Allowance(*PLENTY), all_there=False
    )


@pytest.mark.parametrize(
    ("mode", "is_noted", "is_replaced"),
    [(0o777, False, False), (0o755, False, True), (0o777, True, True)],
)
def test_a_job_of_an_earlier_release_replaces_only_where_nobody_else_may_write(
    project, mode, is_noted, is_replaced
):
    (project.parent / "there/data").mkdir(parents=True)
    (project.parent / "there/data/new").touch()
    project.chmod(mode)
    assert (old_note(project, is_noted) == "") is is_replaced
    assert tree(project / "data") == {"new"}
    assert (project / "data.lbd-old-7/old").exists() is not is_replaced


def test_a_second_try_fills_the_disk_no_further(project):
    (project.parent / "there/data").mkdir(parents=True)
    (project.parent / "there/data/new").touch()
    old_note(project, is_noted=False)
    with pytest.raises(
        BadPack, match=r"^data is not what .* there is data\.lbd-old-7 already; move it away"
    ):
        old_note(project, is_noted=False)
    assert len(list(project.glob("data*"))) == 2


def test_directories_without_lasting_numbers_are_known_by_name(project, monkeypatch):
    monkeypatch.setattr(places, "file_system_of", lambda *_: "fuse.sshfs")
    command = Command(project, ["data"], ["data", "w/report"])
    (project / "data").rename(project / "same again")
    (project / "data").mkdir()
    command.send()
    command.back()
    assert tree(project / "data") == {"new"}
    assert not list(project.glob("data.lbd-old-*"))
