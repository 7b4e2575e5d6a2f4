"""What is written into cgroups of either version, in a directory that imitates one."""

import os

import pytest

from lbd.keeper.limits.ceilings import Ceilings, Totals, nice_of
from lbd.keeper.limits.user_groups import UserGroups


@pytest.fixture(params=[1, 2])
def ceilings(request, tmp_path):
    names = ("memory", "cpu")
    found = Ceilings(dict.fromkeys(names, tmp_path), dict.fromkeys(names, request.param))
    (tmp_path / "job-1").mkdir()
    return found


def test_a_job_may_not_swap_to_exceed_its_memory(ceilings, tmp_path):
    group = tmp_path / "job-1"
    ceiling = ceilings.prepare(str(group), 0, 1000, 0)
    files = {path.name: path.read_text() for path in group.iterdir()}
    is_first = ceilings.version["memory"] == 1
    assert ceiling.joined == ([str(group / "cgroup.procs")] if is_first else [])
    if is_first:
        assert files == {"memory.limit_in_bytes": "1000", "memory.memsw.limit_in_bytes": "1000"}
    else:
        assert files == {"memory.max": "1000", "memory.swap.max": "0", "memory.oom.group": "1"}


@pytest.mark.parametrize(("kills", "was_over"), [(0, False), (1, True), (7, True)])
def test_it_exceeded_its_memory_if_the_kernel_has_killed_something_in_it(
    ceilings, tmp_path, kills, was_over
):
    name = "memory.events" if ceilings.version["memory"] == 2 else "memory.oom_control"
    (tmp_path / "job-1" / name).write_text(f"low 3\noom 5\noom_kill {kills}\noom_group_kill 9\n")
    assert ceilings.was_over(str(tmp_path / "job-1")) is was_over
    assert not ceilings.was_over("")


@pytest.mark.parametrize(
    ("weight", "shares"), [(100, "1024"), (50, "512"), (1, "10"), (10000, "102400")]
)
def test_the_weight_of_all_jobs(ceilings, tmp_path, weight, shares):
    """100 is what any other group has: 1024 shares in version 1."""
    ceilings.set_totals(Totals(cpu_weight=weight))
    if ceilings.version["cpu"] == 1:
        assert (tmp_path / "cpu.shares").read_text() == shares
    else:
        assert (tmp_path / "cpu.weight").read_text() == str(weight)


@pytest.mark.parametrize(
    ("weight", "own", "nice"),
    [(100, 0, 0), (100, 5, 5), (80, 0, 1), (64, 0, 2), (50, 0, 4), (10, 0, 11), (1, 0, 19),
     (10000, 0, 0), (50, 17, 19)],
)  # fmt: skip
def test_each_step_of_nice_is_worth_a_quarter(weight, own, nice):
    assert nice_of(weight, own) == nice


@pytest.fixture
def users(ceilings, tmp_path, monkeypatch):
    """A keeper with the rights to have several users' jobs."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "cgroup.subtree_control").write_text("memory cpu\n")
    ceilings.users = UserGroups(tmp_path, ceilings.version["memory"])
    ceilings.set_totals(Totals(memory_bytes=4000))
    return ceilings


def test_a_job_is_in_the_group_of_its_user_where_all_together_have_a_limit(users, tmp_path):
    """What it leaves in memory is then its user's, and not everybody's."""
    ceiling = users.prepare(str(tmp_path / "job-1"), 7, 1000, 0)
    user = tmp_path / "user-7"
    is_first = users.version["memory"] == 1
    limit = "memory.limit_in_bytes" if is_first else "memory.max"
    assert ((user / limit).read_text(), (user / "job-1" / limit).read_text()) == ("3000", "1000")
    assert ceiling.joined == [str(user / "job-1/cgroup.procs")]
    assert ceiling.group == str(tmp_path / "job-1" if is_first else user / "job-1")
    if not is_first:
        assert (user / "cgroup.subtree_control").read_text() == "+memory +cpu"
    events = user / "job-1" / ("memory.oom_control" if is_first else "memory.events")
    events.write_text("oom_kill 1\n")
    assert users.was_over(ceiling.group)
    users.set_totals(Totals(memory_bytes=8000))
    assert (user / limit).read_text() == "6000"
    users.set_totals(Totals())
    assert (user / limit).read_text() == ("-1" if is_first else "max")
    assert users.prepare(str(tmp_path / "job-2"), 7, 1000, 0).group == str(tmp_path / "job-2")


def test_the_group_of_a_user_stays_until_the_keeper_ends(tmp_path):
    """What is left in it, files in memory or what the kernel holds for somebody, counts for all
    once it is removed."""
    users = UserGroups(tmp_path, 1)
    users.limit_bytes = 3000
    user = users.place("job-1", 7, 0o711).parent
    (user / "memory.limit_in_bytes").unlink()  # as in a directory of the kernel's
    users.forget("job-1")
    assert users.of("job-1") is None
    assert list(user.iterdir()) == []
    users.close()
    assert not user.exists()


def test_a_keeper_without_privileges_has_one_user_alone(ceilings, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ceilings.users = UserGroups(tmp_path, ceilings.version["memory"])
    ceilings.set_totals(Totals(memory_bytes=4000))
    ceilings.prepare(str(tmp_path / "job-1"), 1000, 0, 0)
    assert not (tmp_path / "user-1000").exists()


def test_a_group_of_a_user_without_a_limit_is_not_used(tmp_path):
    """Its jobs are refused, and the next one is, too."""
    users = UserGroups(tmp_path, 2)
    users.limit_bytes = 3000
    for _ in range(2):
        with pytest.raises(FileNotFoundError):  # there is no subtree_control
            users.place("job-1", 7, 0o711)
        assert not list(tmp_path.iterdir())
