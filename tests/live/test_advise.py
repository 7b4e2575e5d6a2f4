"""`lbctl advise` on real daemons: it replays the jobs on their record."""

import json
import time

import pytest
from contract import assert_one_line

from lbd.config.schema import StatsConfig
from lbd.lbm.usage.record import Usage
from lbd.lbm.usage.store import UsageStore

RESULT = {
    "algorithm", "parameters", "mean_response_s", "gain", "gain_ci95", "better", "transferred",
    "wrong_transfers", "messages_per_host_s", "overhead",
}  # fmt: skip


@pytest.fixture(scope="module")
def lab(make_module_lab):
    """Nothing is balanced, and h1 has all the work: eight jobs of 1.2 s every five seconds."""
    lab = make_module_lab(2, "none", "--algorithm", "NOLB")
    began = time.time() - 2000.0
    store = UsageStore(lab.paths("h1").state / "usage.sqlite", StatsConfig())
    store.add(
        [
            Usage(
                finished=at + 2.0, submitted=at, waiting_s=0.001, response_s=2.0,
                cpu_s=1.2 if k else None, user="ann", command="cc", origin="h1", host="h1",
                failed=False, moved=False, wrong=False, pinned=False, state="done", uid=1000,
            )
            for n in range(30) for k in range(8) for at in [began + 5.0 * n + 0.01 * k]
        ]
    )  # fmt: skip
    store.close()
    return lab


def test_advice_says_what_would_have_been_better_and_by_how_much(lab):
    found = json.loads(lab.run("h2", "lbctl", "advise", "--json", check=True, timeout=120).stdout)
    assert found["schema"] == 1
    assert (found["hosts"], found["missing"], found["algorithm"]) == (["h1", "h2"], [], "NOLB")
    assert (found["jobs"], found["movable"], found["not_measured"]) == (240, 240, 30)
    assert found["verdict"] == "better"
    assert found["best"]["gain"] > found["best"]["gain_ci95"] > 0.0
    now, *others = found["results"]
    assert (now["algorithm"], now["parameters"], now["gain"]) == ("NOLB", {}, 0.0)
    assert all(result.keys() == RESULT for result in found["results"])
    assert {other["algorithm"] for other in others} == {
        "GLOBAL", "DISTED", "CENTRAL", "RANDOM", "THRHLD", "LOWEST", "RESERVE", "P2C", "PREDICT",
    }  # fmt: skip


def test_advice_for_people(lab):
    result = lab.run("h1", "lbctl", "advise", "--since", "2h", check=True, timeout=120)
    assert result.stderr == ""  # progress is for terminals
    first, measured, span, _, heading, now, *_ = result.stdout.splitlines()
    assert first.startswith("240 jobs of 2h on 2 hosts, replayed; 240 could move")
    assert "30 jobs was not measured" in measured
    assert span == "all came within 2m25s: too short a time to stand for a day"
    assert heading.split()[:3] == ["ALGORITHM", "WITH", "RESPONSE"]
    assert now.startswith("NOLB")
    assert "as it is now" in now
    assert "would have saved" in result.stdout
    assert result.stdout.endswith(": ask again after a day like others\n")
    assert "lbctl" not in result.stdout  # no command to type


def test_too_few_jobs_are_reported_plainly(lab):
    result = lab.run("h1", "lbctl", "advise", "--since", "1s", check=True)
    assert result.stdout == ""
    assert_one_line(result.stderr, "lbctl", "too few to judge (200 are needed")
    found = lab.lbctl_json("h1", "advise", "--since", "1s")
    assert (found["verdict"], found["results"], found["best"]) == ("too-few-jobs", [], None)


def test_one_host_has_no_choice(make_lab):
    result = make_lab(1).run("h1", "lbctl", "advise")
    assert result.returncode == 2
    assert_one_line(result.stderr, "lbctl", "only one host, so there is nothing to tune")
