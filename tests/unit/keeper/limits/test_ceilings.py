"""What is written into cgroups of either version, in a directory that imitates one."""

import pytest

from lbd.keeper.limits.ceilings import Ceilings, Totals, nice_of


@pytest.fixture(params=[1, 2])
def ceilings(request, tmp_path):
    names = ("memory", "cpu")
    found = Ceilings(dict.fromkeys(names, tmp_path), dict.fromkeys(names, request.param))
    (tmp_path / "job-1").mkdir()
    return found


def test_a_job_may_not_swap_to_exceed_its_memory(ceilings, tmp_path):
    group = tmp_path / "job-1"
    ceiling = ceilings.prepare(str(group), 1000, 0)
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
