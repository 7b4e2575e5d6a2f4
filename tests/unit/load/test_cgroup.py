import errno
import math
import os

import pytest

from lbd.load import cgroup
from lbd.load.cgroup import Hierarchy


def write(path, **files):
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)


def test_both_versions_are_found_where_they_are_mounted(tmp_path):
    cpu, unified = tmp_path / "cpu", tmp_path / "unified"
    (cpu / "lab/h1").mkdir(parents=True)
    (unified / "lab").mkdir(parents=True)
    mountinfo = (
        f"30 25 0:26 / {cpu} rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        f"31 25 0:27 / {unified} rw - cgroup2 cgroup2 rw\n"
        "32 25 0:28 / /proc rw - proc proc rw\n"
    )
    own = "4:cpu,cpuacct:/lab/h1\n0::/lab\n"
    found = cgroup.hierarchies(mountinfo.encode(), own.encode())
    assert found == [
        Hierarchy(frozenset({"cpu", "cpuacct"}), cpu, cpu / "lab/h1"),
        Hierarchy(frozenset(), unified, unified / "lab"),
    ]
    assert cgroup.with_controller(found, "cpu") is found[0]
    assert cgroup.with_controller(found, "memory") is found[1]
    assert cgroup.with_controller([], "cpu") is None


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [
        ("/", "/a/b", "a/b"),
        ("/a", "/a/b", "b"),  # the mount begins at a
        ("/a/b", "/a/b", ""),  # a container sees only its own
        ("/", "/../..", ""),  # outside of our cgroup namespace
        ("/", "/gone", ""),
    ],
)
def test_own_directory(tmp_path, root, path, expected):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    found = cgroup.own_directory(str(tmp_path), root, path)
    assert found == (tmp_path / expected if expected else tmp_path)


@pytest.mark.parametrize(
    ("version", "files", "expected"),
    [
        (2, {"cpu__max": "150000 100000\n"}, 1.5),
        (2, {"cpu__max": "max 100000\n"}, math.inf),
        (2, {}, math.inf),
        (1, {"cpu__cfs_quota_us": "50000\n", "cpu__cfs_period_us": "100000\n"}, 0.5),
        (1, {"cpu__cfs_quota_us": "-1\n", "cpu__cfs_period_us": "100000\n"}, math.inf),
    ],
)
def test_quota(tmp_path, version, files, expected):
    write(tmp_path, **files)
    assert cgroup.quota_cores(tmp_path, version) == expected


def test_the_way_up_ends_at_the_mount(tmp_path):
    own = tmp_path / "a/b"
    own.mkdir(parents=True)
    found = Hierarchy(frozenset(), tmp_path, own).upwards()
    assert found == [own, tmp_path / "a", tmp_path]


def test_members_of_a_cgroup_and_of_those_below(tmp_path):
    write(tmp_path, cgroup__procs="1\n2\n")
    write(tmp_path / "sub", cgroup__procs="30\n")
    assert sorted(cgroup.members(tmp_path)) == [1, 2, 30]
    assert cgroup.members(tmp_path / "gone") == []


def test_members_of_groups_that_are_not_ours_to_list(tmp_path, monkeypatch):
    """As for groups of jobs, for daemons that are not root: a group of known name can be read."""
    (tmp_path / "cgroup.procs").write_text("1\n")

    def closed(path):
        raise PermissionError(errno.EACCES, str(path))

    monkeypatch.setattr(os, "scandir", closed)
    assert cgroup.members(tmp_path) == [1]


def test_members_that_we_cannot_see_are_left_out(tmp_path):
    """Killed as 0, they would mean our own process group."""
    write(tmp_path, cgroup__procs="0\n0\n7\n")
    assert cgroup.members(tmp_path) == [7]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu__stat": "usage_usec 2500000\nuser_usec 1\n"}, 2.5),
        ({"cpuacct__usage": "1500000000\n"}, 1.5),
        ({"cpu__stat": "nr_periods 7\n", "cpuacct__usage": "1500000000\n"}, 1.5),
        ({"cpu__stat": "nr_periods 7\n"}, None),
        ({}, None),
    ],
)
def test_cpu_used(tmp_path, files, expected):
    write(tmp_path, **files)
    assert cgroup.cpu_used_s(tmp_path) == expected


def test_the_root_cgroup_is_recognised_by_its_files(tmp_path):
    version1 = Hierarchy(frozenset({"cpu"}), tmp_path, tmp_path)
    version2 = Hierarchy(frozenset(), tmp_path, tmp_path)
    assert not cgroup.is_root(version1)
    assert cgroup.is_root(version2)
    write(tmp_path, release_agent="", cgroup__type="domain\n")
    assert cgroup.is_root(version1)
    assert not cgroup.is_root(version2)


def test_this_machine_has_some_cores():
    assert 0 < cgroup.usable_cores() <= 65536
