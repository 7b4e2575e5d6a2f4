"""Where a worker imports from: others may have created on its host what is the client's here."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.local.frames import pack
from lbd.python import wire
from lbd.python.import_path import is_anybodys, is_believed, stamps
from lbd.python.pickles import pack_call
from tests.unit.mounts import mounted

SOMEBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


@pytest.fixture
def common(tmp_path):
    """Makes a place like /tmp."""
    place = tmp_path / "common"
    place.mkdir()
    place.chmod(0o1777)
    return place


def theirs(path):
    path.mkdir()
    os.chown(path, SOMEBODY, SOMEBODY)
    return path


def test_a_place_that_all_may_write_to_is_not_trusted(common):
    assert is_anybodys(str(common))
    assert is_anybodys(str(common / "made" / "later"))


def test_our_own_directory_in_such_a_place_is_trusted(common):
    (common / "project").mkdir()
    assert not is_anybodys(str(common / "project"))
    assert not is_anybodys(str(common / "project" / "made" / "later"))


@needs_root
def test_a_directory_of_another_user_in_such_a_place_and_links_to_it_are_not_trusted(
    common,
):
    (theirs(common / "project") / "below").mkdir()
    ours = common.parent / "link"
    ours.symlink_to(common / "project")
    for place in (common / "project", common / "project" / "below", ours):
        assert is_anybodys(str(place))


@needs_root
def test_a_file_system_that_a_user_may_have_mounted_there_is_not_trusted(common):
    (common / "project").mkdir()
    with mounted(common / "project"):
        assert is_anybodys(str(common / "project"))


@needs_root
def test_a_link_of_another_user_on_the_way_is_not_trusted(common, tmp_path):
    """Our own link leads into the common place, and theirs from there to where nobody else
    writes: neither end of the way shows it."""
    (tmp_path / "home" / "proj").mkdir(parents=True)
    (common / "bob").symlink_to(tmp_path / "home")
    ours = tmp_path / "proj"
    ours.symlink_to(common / "bob" / "proj")
    assert not is_anybodys(str(ours))
    os.chown(common / "bob", SOMEBODY, SOMEBODY, follow_symlinks=False)
    assert is_anybodys(str(ours))
    assert is_anybodys(str(ours / "below"))


def test_links_in_a_circle_are_not_trusted(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to("a")
    assert is_anybodys(str(tmp_path / "a"))


@needs_root
def test_a_directory_of_a_colleague_elsewhere_is_trusted(tmp_path):
    assert is_believed(str(theirs(tmp_path / "library")), None)


@needs_root
def test_the_directory_of_the_client_is_believed_and_one_of_its_name_is_not(common):
    place = str(theirs(common / "project"))
    stamp = stamps([place])[place]
    assert is_believed(place, stamp)
    os.rename(place, common / "before")
    theirs(Path(place))
    assert not is_believed(place, stamp)
    assert not is_believed(place, None)


@needs_root
def test_a_worker_imports_nothing_that_somebody_has_left_under_the_name_of_the_clients(common):
    trap = theirs(common / "project") / "trap.py"
    trap.write_text("import os\nopen(os.environ['SPRUNG'], 'w')\n")
    settings = {"path": [str(trap.parent)], "executor": "x", "cache_bytes": 0, "result_bytes": 4096}
    call = pack_call(pickle.dumps(__import__), ("trap",), {})
    task = wire.TaskFrame(1, call.function, call.arguments)
    frames = pack(wire.SETTINGS, json.dumps(settings).encode()) + wire.pack_task(task)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "lbd.python.worker"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "SPRUNG": str(common / "sprung")},
    ) as worker:  # fmt: skip
        worker.stdin.write(frames)
        worker.stdin.flush()
        incoming, found = wire.Incoming(1 << 20), {}
        while wire.RESULT not in found:
            found |= dict(incoming.feed(os.read(worker.stdout.fileno(), 1 << 16)))
        worker.stdin.close()
    assert b"No module named 'trap'" in found[wire.RESULT]
    assert not (common / "sprung").exists()
