"""A host's cgroups, on directories that imitate either version."""

import pytest

from lbd.lab import cgroups


@pytest.fixture
def unified(tmp_path):
    """Makes a v2 hierarchy that delegates `cpu` as far as its first level."""
    inner = tmp_path / "user.slice/session.scope"
    inner.mkdir(parents=True)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("memory\n")
    (inner / "cgroup.subtree_control").write_text("\n")
    return tmp_path


def test_a_v2_group_is_made_where_cpu_is_delegated(unified):
    own = unified / "user.slice/session.scope"
    assert cgroups.unified_parent(own, unified) == unified
    (unified / "user.slice/cgroup.subtree_control").write_text("cpu memory\n")
    assert cgroups.unified_parent(own, unified) == unified / "user.slice"


def test_a_hierarchy_without_cpu_is_used_at_its_root(unified):
    (unified / "cgroup.subtree_control").write_text("\n")
    assert cgroups.unified_parent(unified / "user.slice/session.scope", unified) == unified


def test_the_quota_in_v2_and_in_v1(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cgroups.set_quota(tmp_path, 0.5)
    assert (tmp_path / "cpu.max").read_text() == "50000 100000"
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    assert cgroups.set_quota(tmp_path, 1.5)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "150000"
    assert (tmp_path / "cpu.cfs_period_us").read_text() == "100000"


def test_a_hierarchy_without_a_quota_says_so(tmp_path):
    assert not cgroups.set_quota(tmp_path, 0.5)


def test_cpu_is_delegated_to_the_hosts_below(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    cgroups.hand_down_cpu(tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"


def test_groups_that_cannot_take_processes_are_left_out(tmp_path):
    assert cgroups.make([str(tmp_path / "lab")], "h1", 1.0) == ((), False)


def test_removal_goes_from_the_innermost_out(tmp_path):
    (tmp_path / "lab/h1/lbd-jobs/h1-1").mkdir(parents=True)
    assert cgroups.remove([str(tmp_path / "lab")]) == []
    assert not (tmp_path / "lab").exists()


def test_a_failed_removal_is_reported(tmp_path):
    (tmp_path / "lab/h1").mkdir(parents=True)
    (tmp_path / "lab/h1/file").write_text("")
    assert cgroups.remove([str(tmp_path / "lab")]) == [str(tmp_path / "lab")]
