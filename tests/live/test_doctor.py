"""`lbctl doctor` against real faults: it names each of them with its fix."""

import json
import os

import pytest

from tests.live import faults
from tests.live.cluster import Lab

pytestmark = [pytest.mark.live]

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not root: nothing can be mounted")

# The fault, the check that names it, its text, its fix. Faults of files and certificates that only
# their own host can see are in tests/unit/doctor/test_checks.py.
TABLE = [
    (faults.malformed, "configuration", "changed.toml:", "correct it"),
    (faults.misspelt, "configuration", 'did you mean "address"', "correct it"),
    (faults.not_ours, "address", "192.0.2.7 is not an address of this machine", "cluster.hosts"),
    (faults.open_configuration, "configuration rights", "writable by everybody", "chmod o-w"),
    (faults.open_directory, "runtime directory rights", "writable by everybody", "chmod o-w"),
    pytest.param(faults.full_disk, "state directory", "KiB left", "make room", marks=AS_ROOT),
    pytest.param(faults.read_only, "state directory", "is not writable", "chmod", marks=AS_ROOT),
    (faults.lim_dead, "LIM", "not running: no ", "lbd lab start h1"),
    (faults.lim_killed, "LIM", "lim.sock is stale", "lbd lab start h1"),
    (faults.lim_hangs, "LIM", "did not answer", "`kill -9 "),
    (faults.lbm_dead, "LBM", "not running", "lbd lab start h1"),
    (faults.keeper_hangs, "keeper", "is stopped: no job can start", "kill -CONT"),
    (faults.older_users, "keeper", "another users.allow than lbd.toml has", "restart lbd-keeper"),
    (faults.no_keeper, "keeper", "not running", "lbctl restart lbm"),
    (faults.few_descriptors, "LIM descriptors", "of 40 in use", "LimitNOFILE"),
    (faults.second_lim, "second LIM", "2 of them listen", "ss -xlp"),
    (faults.not_compiled, "compiled keeper", "start more slowly", "C compiler"),
    pytest.param(faults.not_delegated, "containment", "session", "Delegate=yes", marks=AS_ROOT),
    (faults.peer_lim_dead, "peer h2", "cannot be reached", "no LIM is listening there"),
    (
        faults.peer_lbm_dead,
        "peer h2 LBM",
        "is closed: no LBM is listening",
        "on h2, run `lbd lab start h2",
    ),
    (faults.cut, "peer h2", "cut off", "TCP ports 7901 and 7902 are open"),
    (faults.wrong_clock, "peer h2", "its clock is 1m", "chrony"),
    (faults.other_version, "peer h2", "runs lbd 0.0.9", "same version"),
    (faults.other_algorithm, "peer h2 algorithm", "uses LOWEST", "lbctl algorithm GLOBAL"),
    pytest.param(
        faults.not_shared, "peer h2 commands", "accepts none from here", "mount", marks=AS_ROOT
    ),
    (faults.no_dispatcher, "dispatcher", "does not run", "run `lbd lab start h1"),
    (faults.drained, "peer h2 commands", "drained", "undrain"),
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    lab = Lab.up(2)
    lab.scratch = tmp_path_factory.mktemp("scratch")
    yield lab
    lab.down()


def consult(lab, config=None, environment=None, directory=None):
    options = ("--config", config) if config else ()
    result = lab.run(
        "h1", "lbctl", "doctor", "--json", *options, env=environment, cwd=directory or "/"
    )
    assert result.stderr == ""
    reply = json.loads(result.stdout)
    assert result.returncode == (1 if reply["faults"] else 0)
    return reply["checks"]


@pytest.mark.parametrize(
    ("plant", "name", "says", "mend"),
    TABLE,
    ids=[getattr(row, "values", row)[0].__name__ for row in TABLE],
)
def test_a_fault_is_named_with_its_fix(pair, plant, name, says, mend):
    with plant(pair) as how:
        found = [check for check in consult(pair, **how) if check["state"] != "ok"]
    named = [check for check in found if check["name"] == name and says in check["says"]]
    assert named, found
    assert all(mend in check["mend"] for check in named)


def test_without_a_fault_nothing_is_found(pair):
    pair.wait_until(lambda: faults.healthy(pair), "the lab is well")
    assert [check for check in consult(pair) if check["state"] != "ok"] == []
