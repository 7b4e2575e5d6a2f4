"""Which paths may be sent and fetched, and which links may come back."""

import os
from types import SimpleNamespace

import pytest

from lbd.client.complaints import Trouble
from lbd.client.staging import Staging, clean
from lbd.pack.unpack import stays_inside

LISTS = [
    ([], []),
    (["a", "b/c"], [b"a", b"b/c"]),
    (["a", "./a", "b/../a", "a/"], [b"a"]),
    (["a/b", "a", "ab", "a/c/d"], [b"a", b"ab"]),
    (["a", ".", "b"], [b"."]),
    (["..a", "...", "a/..b"], [b"..a", b"...", b"a/..b"]),
    (["-x", "a b", "\udcff"], [b"-x", b"\xff", b"a b"]),
    (["/home/ann/in.csv", "/home/./ann//d/e"], [b"in.csv", b"d/e"]),
]


@pytest.mark.parametrize(("given", "paths"), LISTS)
def test_paths_are_normalised(given, paths):
    assert sorted(clean("--send", given, b"/home/ann")) == sorted(paths)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "/",
        "/etc",
        "//etc",
        "/home/anna/x",
        "/home/ann/../bob",
        "..",
        "../a",
        "a/../..",
        "a/../../b",
    ],
)
def test_a_path_that_leads_out_is_refused(given):
    with pytest.raises(Trouble, match="--fetch"):
        clean("--fetch", ["fine", given], b"/home/ann")


LINKS = [
    (b"out/l", b"a", True), (b"out/l", b"../a", True), (b"out/l", b"./.././out/a..b", True),
    (b"l", b"a/b", True), (b"l", b".", True), (b"out/l", b"..", True),
    (b"out/l", b"../..", False), (b"l", b"..", False), (b"l", b"/etc", False), (b"l", b"", False),
    (b"out/l", b"a/../../../x", False), (b"a/b/l", b"../../../x", False),
    (b"out/l", b"../out/../a", False), (b"out/l", b"a/..", False),
]  # fmt: skip


@pytest.mark.parametrize(("link", "target", "inside"), LINKS)
def test_links_that_stay_inside(link, target, inside):
    assert stays_inside(link, target) is inside


def test_nothing_is_fetched_into_a_directory_that_does_not_exist(tmp_path):
    """This was found after a host had been chosen, and reported as an error of --send."""
    options = SimpleNamespace(send=[], fetch=["out"])
    with pytest.raises(
        Trouble, match=r"^--fetch: .*/away, where it would be put, does not exist here"
    ):
        Staging(options, bytes(tmp_path / "away"))


def test_a_missing_directory_is_not_called_a_missing_file(tmp_path):
    options = SimpleNamespace(send=["in"], fetch=["out"])
    with pytest.raises(Trouble, match=r"^--send: .*/away, where it would be, does not exist here"):
        Staging(options, bytes(tmp_path / "away"))


def test_fetched_files_go_where_the_call_began(tmp_path):
    """Another user could make a directory of that name once it was removed."""
    here = tmp_path / "here"
    here.mkdir()
    staging = Staging(SimpleNamespace(send=[], fetch=["out"]), bytes(here))
    here.rename(tmp_path / "moved")
    here.mkdir()
    (here / "out").touch()
    assert "did not create it" in staging.why_not_made()
    (tmp_path / "moved/out").touch()
    assert staging.why_not_made() == ""


def test_the_temporary_names_of_fetched_files_cannot_be_guessed(tmp_path):
    """In a directory like /tmp another user could have created the file first."""
    options = SimpleNamespace(send=[], fetch=["out"])
    made = {Staging(options, bytes(tmp_path))._fetching._beside(0) for _ in range(2)}
    assert len(made) == 2


def test_links_do_not_lead_out_together(tmp_path, monkeypatch):
    """Behind the first link, which leads up, the ".." of the second one start from there."""
    monkeypatch.chdir(tmp_path)
    os.makedirs("home/out/a/b/c")
    monkeypatch.chdir("home")
    up, out = (b"out/a/b/c/up", b"../../../x"), (b"out/l", b"a/b/c/up/../../../secret")
    os.mkdir("out/x")
    for link, target in (up, out):
        os.symlink(target, link)
    assert os.path.realpath("out/l") == str(tmp_path / "secret")
    assert [stays_inside(*link) for link in (up, out)] == [True, False]


@pytest.mark.parametrize(("path", "is_said"), [("res*", True), ("a[1].txt", False)])
def test_a_pattern_is_no_pattern_and_that_is_said_before_the_run(tmp_path, capfd, path, is_said):
    """It was said after hours, by the command's exit status of 125."""
    Staging(SimpleNamespace(send=[], fetch=[path]), bytes(tmp_path))
    said = capfd.readouterr().err
    assert said.startswith(f"lbrun: --fetch {path}: taken as a name") is is_said
    assert bool(said) is is_said
