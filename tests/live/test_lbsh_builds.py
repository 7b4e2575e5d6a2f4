"""`make -j8 SHELL=lbsh` of real projects (plain make, autotools, cmake) makes what make makes."""

import hashlib
import os
import shutil
import subprocess
from functools import partial

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.debian_source import fetch

pytestmark = pytest.mark.alone

# Even small compilations may leave: only the result matters here.
SETTINGS = (*FAST, "lim.job_threshold_s=0.01", "lim.local_threshold=0.2", "lbm.slots=4")
MADE = (".o", ".a", ".so", ".h", "")


LAB = partial(Lab.up, 4, "none", settings=SETTINGS)


@pytest.fixture
def project(tmp_path_factory):
    """project(package): a fresh copy of its source at the same path on each call."""
    fetched = {}

    def anew(package):
        if os.geteuid() != 0:
            pytest.skip("apt-get source needs root")
        if package not in fetched:
            source = fetch(package, tmp_path_factory.mktemp("source"))
            fetched[package] = source, tmp_path_factory.mktemp("built") / package
        source, tree = fetched[package]
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(source, tree, symlinks=True)
        return tree

    return anew


def digests(tree):
    """The digests of all that a build leaves: objects, libraries, headers, programs."""
    return {
        str(path.relative_to(tree)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(tree.rglob("*"))
        if path.is_file() and path.suffix in MADE and b"\0" in path.read_bytes()[:4096]
    }


def jobs_away(lab):
    """Compilations of h1's that ran on other hosts, as far as the accounting goes back."""
    jobs = lab.lbctl_json("h1", "jobs", "--all")
    return [job for job in jobs if job["host"] not in ("h1", None)]


def plain(tree, *words):
    subprocess.run(words, cwd=tree, check=True, capture_output=True, timeout=240)


def by_lbsh(lab, tree, *words):
    result = lab.run("h1", *words, cwd=tree, timeout=240)
    assert result.returncode == 0, f"{words}: {result.stdout[-2000:]}\n{result.stderr[-2000:]}"
    assert "lbsh:" not in result.stderr
    assert "lbrun:" not in result.stderr
    return result


def test_plain_make(lab, project):
    goal = ("-C", "src", "linux-noreadline")
    tree = project("lua5.4")
    plain(tree, "make", "-j2", *goal)
    expected = digests(tree)
    tree = project("lua5.4")
    by_lbsh(lab, tree, "make", "-j8", "SHELL=lbsh", *goal)
    assert digests(tree) == expected
    away = jobs_away(lab)
    assert {job["host"] for job in away} >= {"h2", "h3", "h4"}, away
    assert {job["command"][0] for job in away} <= {"gcc", "cc"}, away


def test_autotools(lab, project):
    tree = project("hello")
    plain(tree, "sh", "./configure")
    config_h = (tree / "config.h").read_bytes()
    plain(tree, "make", "-j2")
    expected = digests(tree)
    tree = project("hello")
    by_lbsh(lab, tree, "lbsh", "./configure")
    assert (tree / "config.h").read_bytes() == config_h
    makefile = (tree / "Makefile").read_text()
    assert "lbd-shims" not in makefile, [li for li in makefile.splitlines() if "lbd-shims" in li]
    by_lbsh(lab, tree, "make", "-j8", "SHELL=lbsh")
    assert digests(tree) == expected
    hello = subprocess.run([tree / "hello"], capture_output=True, text=True, check=True)
    assert hello.stdout == "Hello, world!\n"


def test_cmake(lab, project):
    configure = ("cmake", "-S", ".", "-B", "build", "-DENABLE_CJSON_UTILS=On")
    tree = project("cjson")
    plain(tree, *configure)
    plain(tree, "make", "-j2", "-C", "build")
    expected = digests(tree)
    tree = project("cjson")
    # cmake records the path of the compiler that it finds, here a shim: so its commands with
    # absolute paths are distributed, too.
    by_lbsh(lab, tree, "lbsh", "-c", " ".join(configure))
    before = len(jobs_away(lab))
    by_lbsh(lab, tree, "make", "-j8", "-C", "build", "SHELL=lbsh")
    assert digests(tree) == expected
    assert len(jobs_away(lab)) > before
    # And the recorded path works without lbsh.
    (tree / "build/CMakeFiles/cjson.dir/cJSON.c.o").unlink()
    plain(tree, "make", "-C", "build")
    assert digests(tree) == expected
