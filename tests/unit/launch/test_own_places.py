"""Whether root and we alone decide what is at a path, as lbd and its C programs say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lbd.launch.own_places import LINKS_MAX, is_ours_alone
from tests.unit.mounts import mounted

EVE = 2001
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.root
PROGRAM = """
#define NO_MEMORY _exit(125)
#include "lbd/launch/program.h"
#include "lbd/client/c/own_places.h"
int main(int count, char **words) { return count < 2 || !is_ours_alone(words[1]); }
"""


@pytest.fixture(scope="module")
def of_c(tmp_path_factory):
    if (compiler := shutil.which("gcc") or shutil.which("cc")) is None:
        pytest.skip("needs a C compiler")
    program = tmp_path_factory.mktemp("c") / "asks"
    words = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-w", "-I", str(ROOT), "-x", "c", "-"]
    subprocess.run([*words, "-o", str(program)], input=PROGRAM, text=True, check=True)
    return lambda path: subprocess.run([program, path]).returncode == 0


@pytest.fixture(params=["python", "c"])
def is_ours(request):
    return is_ours_alone if request.param == "python" else request.getfixturevalue("of_c")


@pytest.fixture
def top(tmp_path):
    """Has directories of ours, of Eve's and for all."""
    for name, owner, mode in ("ours", 0, 0o755), ("eves", EVE, 0o755), ("tmp", 0, 0o1777):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name).chmod(mode)
        os.chown(tmp_path / name, owner, owner)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "is_so"),
    [
        ("ours", True), ("ours/below", True), ("ours/nothing", False), ("eves", False),
        ("eves/below", False), ("tmp/below", True), ("tmp", True), ("./ours//below/", True),
        ("ours/../tmp/below/..", True), ("eves/../ours", False), ("ours/../eves", False),
    ],
)  # fmt: skip
def test_all_directories_on_the_way_are_ours(top, is_ours, path, is_so):
    assert is_ours(f"{top}/{path}") == is_so


@pytest.mark.parametrize("target", ["{}/{}", "../{1}", "../ours/../{1}"])
@pytest.mark.parametrize(
    ("to", "is_so"), [("ours", True), ("tmp/below", True), ("eves/below", False)]
)
def test_so_are_those_to_which_links_lead(top, is_ours, target, to, is_so):
    (top / "ours/link").symlink_to(target.format(top, to))
    assert is_ours(f"{top}/ours/link") == is_so
    assert is_ours(f"{top}/ours/link/") == is_so


def test_a_link_in_the_middle_may_lead_through_a_directory_of_another_user(top, is_ours):
    """Both its ends are ours, and Eve decides which of our directories it is."""
    (top / "eves/choice").symlink_to(top / "ours")
    (top / "ours/link").symlink_to(top / "eves/choice")
    assert not is_ours(f"{top}/ours/link")


def test_links_of_another_user_and_circles_are_not_ours(top, is_ours):
    (top / "tmp/link").symlink_to(top / "ours")
    assert is_ours(f"{top}/tmp/link")
    os.lchown(top / "tmp/link", EVE, EVE)
    assert not is_ours(f"{top}/tmp/link")
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    assert not is_ours(f"{top}/a")


@pytest.mark.parametrize("links", [LINKS_MAX, LINKS_MAX + 1])
def test_as_many_links_as_the_kernel_follows(top, is_ours, links):
    (top / "0").mkdir()
    for number in range(links):
        (top / str(number + 1)).symlink_to(str(number))
    assert is_ours(f"{top}/{links}") == (links <= LINKS_MAX)


def test_where_anybody_may_rename_or_mount_nothing_is_ours(top, is_ours):
    with mounted(top / "tmp/below"):
        assert not is_ours(f"{top}/tmp/below")
    (top / "tmp").chmod(0o777)
    assert not is_ours(f"{top}/tmp/below")
    assert not is_ours("ours")
