"""Labs for the live tests, and the check that no lab left anything behind."""

import contextlib
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest

from lbd.lab import namespaces, processes
from lbd.lab.plan import toml
from tests.live.cluster import FAST, PREFIX, Lab, assert_nothing_left, has_front
from tests.live.fake_lbm import FakeLbm


def need_namespaces():
    """Skips a test without namespaces and says why; fails in CI, where nothing may be missing."""
    obstacle = namespaces.why_not()
    if obstacle and os.environ.get("CI"):
        pytest.fail(f"cannot test namespaces: {obstacle}")
    if obstacle:
        pytest.skip(obstacle)


@pytest.fixture(scope="module")
def lab(request):
    """Three hosts on loopback with quick timings, or the lab that the module's LAB starts; if it is
    OPEN, other users may enter. Shared by a module, since each host takes some of the machine from
    every test."""
    lab = getattr(request.module, "LAB", partial(Lab.up, 3))()
    if getattr(request.module, "OPEN", False):
        lab.root.chmod(0o755)  # as /run/lbd
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def two():
    """Two hosts on loopback with quick timings, shared by a module."""
    lab = Lab.up(2, settings=FAST)
    yield lab
    lab.down()


@contextlib.contextmanager
def reloading(lab):
    """reload("section", key=value, …): changes that section of h2's settings; undone at the end."""
    config = lab.paths("h2").config
    before = config.read_text()

    def reload(section, **values):
        more = toml({section: values}) if values else ""
        config.write_text(f"{before}\n{more}")
        lab.run("h2", "lbctl", "reload", check=True)

    yield reload
    reload("")


@pytest.fixture
def reloaded(two):
    with reloading(two) as reload:
        yield reload


@pytest.fixture(scope="module")
def lab_ns():
    """Three hosts in namespaces with quick timings, shared by a module. Needs root."""
    need_namespaces()
    lab = Lab.up(3, "namespaces")
    yield lab
    lab.down()


@pytest.fixture(scope="module", params=["compiled", "python"])
def client(request):
    """Runs the tests of a module once with each `lbrun`: the compiled front and the Python
    client."""
    if request.param == "compiled" and not has_front():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no compiled front")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setenv("LBD_FRONT", "python")
        yield request.param


def making_labs():
    """make(hosts, isolate, *options, settings=…): a lab, for one test or for those of a module."""
    made = []

    def make(hosts=2, isolate="none", *options, **more):
        if isolate == "namespaces":
            need_namespaces()
        made.append(Lab.up(hosts, isolate, *options, **more))
        return made[-1]

    yield make
    for lab in made:
        lab.down()


make_lab = pytest.fixture(making_labs, name="make_lab")
make_module_lab = pytest.fixture(making_labs, scope="module", name="make_module_lab")


@pytest.fixture
def short_dir():
    """A directory whose name leaves room for Unix sockets."""
    root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_at_the_end():
    """Checks that no process of any lab outlives these tests."""
    yield
    for lab in Lab.started:
        assert_nothing_left(lab.root)
    prefix = os.path.join(tempfile.gettempdir(), PREFIX)
    ours = {str(lab.root) for lab in Lab.started}
    marked = {
        pid: mark
        for pid in processes.pids()
        if (mark := processes.environment_of(pid).get(processes.MARK, "")) in ours
    }
    assert not marked, f"processes left by tests: {marked}"
    shutil.rmtree(f"{prefix}bin-{os.getpid()}", ignore_errors=True)


@pytest.fixture
def work(tmp_path):
    """A project: sources, a link, a tool, and a file that must not be touched."""
    work = tmp_path / "work"
    (work / "src/sub").mkdir(parents=True)
    (work / "src/a").write_text("a\n")
    (work / "src/sub/b").write_text("b\n")
    (work / "src/link").symlink_to("sub/b")
    (work / "tool").write_text("#!/bin/sh\necho tool\n")
    (work / "tool").chmod(0o755)
    (work / "unlisted").write_text("mine\n")
    os.utime(work / "src/a", ns=(1, 1_234_567_890_123_456_789))
    return work


@pytest.fixture
def fake(short_dir):
    fake = FakeLbm(short_dir)
    yield fake
    fake.close()
