"""The users' scripts: determined by the seed alone, and as much work as in the thesis."""

import pytest

from lbd.sim.scripts import LOADS, MAY_LEAVE_SHARE, Work, levels, scripts

WORK = Work("canonical", 6, 0.25, 6, 0.25, 400.0, ("compile", "awk"), ("sort",))


def test_levels_are_spread_over_the_hosts():
    assert levels("canonical", 6) == "HHMMLL"
    assert levels("canonical", 9) == "HHHMMMLLL"
    assert levels("canonical", 3) == "HML"
    assert levels("skewed", 3) == "H--"
    assert levels("light", 2) == "LL"
    assert set("".join(LOADS.values())) == set("HML-")


def test_the_seed_decides_and_users_differ():
    drawn = scripts(WORK, "1 0")
    assert drawn == scripts(WORK, "1 0")
    assert drawn != scripts(WORK, "1 1")
    everyone = [tuple(lines) for host in drawn for lines in host]
    assert len(set(everyone)) == len(everyone) == 36


def test_mean_demand_and_shares_are_as_requested():
    lines = [line for host in scripts(WORK, "1 0") for user in host for line in user]
    may_leave = [line for line in lines if line.kind != "sort"]
    assert len(may_leave) / len(lines) == pytest.approx(MAY_LEAVE_SHARE, abs=0.05)
    work = sum(line.demand_s for line in lines)
    assert work / len(lines) == pytest.approx(WORK.demand_s, rel=0.15)
    assert sum(line.demand_s for line in may_leave) / work == pytest.approx(0.83, abs=0.05)


def test_work_increases_with_the_level_and_idle_hosts_have_none():
    by_host = [sum(line.demand_s for user in host for line in user) for host in scripts(WORK, "1")]
    heavy, moderate, light = (sum(by_host[at : at + 2]) for at in (0, 2, 4))
    assert heavy > 1.15 * moderate > 1.3 * light
    # Of what two hosts could do in that time, as in table 4.4.
    could = 2 * WORK.cores * WORK.duration_s
    assert 0.6 < heavy / could < 0.95
    assert 0.25 < light / could < 0.5
    idle = scripts(Work("skewed", 3, 0.5, 4, 0.1, 10.0, ("awk",), ()), "1")
    assert [len(host) for host in idle] == [4, 0, 0]
