"""The first thing that people do with lbd: the whole cluster builds a real C program."""

import collections
import hashlib
import os
import re
import shutil
import subprocess

import pytest

from tests.live.debian_source import fetch

pytestmark = pytest.mark.alone

BURNERS = "for i in 1 2 3; do (while :; do :; done) & done; wait"
HOSTS = 4


@pytest.fixture(scope="module")
def lua(tmp_path_factory):
    """The Lua interpreter's source."""
    if os.geteuid() != 0:
        pytest.skip("apt-get source and namespaces need root")
    return fetch("lua5.4", tmp_path_factory.mktemp("source"))


def built(tree):
    """Name and digest of each file that a build made."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tree / "src").iterdir()
        if path.suffix in (".o", ".a") or path.name in ("lua", "luac")
    }


def test_make_over_four_hosts_with_a_busy_one(make_lab, lua, tmp_path):
    lab = make_lab(HOSTS, "namespaces", "--cpus", "0.5", settings=())
    # Both builds use the same directory, whose name is part of the result.
    tree = tmp_path / "lua"
    shutil.copytree(lua, tree)
    make = ("make", "-C", tree / "src", "-j8", "linux-noreadline")
    subprocess.run([*make, "CC=gcc -std=gnu99"], check=True, capture_output=True, timeout=120)
    expected = built(tree)
    shutil.rmtree(tree)
    shutil.copytree(lua, tree)

    burners = lab.popen("h1", "sh", "-c", BURNERS)
    try:
        busy = "h1 is seen to be busy, the others to be at rest"
        lab.wait_until(
            lambda: [h for h, load in loads(lab).items() if load > 1] == ["h1"], busy, 60
        )
        result = lab.run("h1", *make, "CC=lbrun -v gcc -std=gnu99", timeout=240)
    finally:
        burners.kill()
        burners.wait()

    assert result.returncode == 0, result.stderr
    assert built(tree) == expected
    # The match is not only at the start of a line: a linker's warning comes in pieces, and another
    # command's line may come between them.
    placed = collections.Counter(re.findall(r"lbrun: gcc runs on (h\d)", result.stderr))
    commands = sum(placed.values())
    assert commands == len([name for name in expected if name.endswith(".o")]) + 2  # the links
    assert {"h2", "h3", "h4"} <= set(placed), placed
    assert placed["h1"] <= commands / HOSTS, placed


def loads(lab):
    return {row["name"]: row["index"] for row in lab.ask("h1", "lim", "status")["hosts"]}
