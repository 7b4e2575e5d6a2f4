"""A host leaves a cluster while its daemons run, or dies and is removed: real daemons."""

import subprocess

import pytest

from tests.live.cluster import FAST
from tests.live.test_joining import new_token
from tests.live.trust import Newcomer, authority_on, files_of

# On a slow machine, too, a host that is up must seem up.
SETTINGS = (*FAST, "lim.stale_after_s=15.0", "lim.down_after_s=30.0", "tls.revocation_check_s=0.5")
LONG_S = 90
UNTIL_TOLD = "echo begun; read x; echo done $x; exit 7"


@pytest.fixture(scope="module")
def tls_lab(make_module_lab):
    return make_module_lab(2, "none", "--tls", "--mode", "fcfs", settings=SETTINGS)


@pytest.fixture
def bare(tls_lab, short_dir):
    """A third host, whose daemons `lbd up` would run."""
    made = Newcomer(tls_lab, short_dir)
    yield made
    made.stop()
    if not authority_on(tls_lab).ledger().hosts["new"].revoked:
        tls_lab.run("h1", "lbctl", "revoke", "new")


@pytest.fixture
def newcomer(tls_lab, bare):
    bare.join(new_token(tls_lab, "new")).check_returncode()
    bare.start()
    wait_until_all_see_it(tls_lab, bare)
    return bare


def wait_until_all_see_it(lab, newcomer):
    lab.wait_until(
        lambda: all(lab.states(host).get("new") == "up" for host in lab.hosts),
        "every host sees the newcomer", LONG_S, newcomer.log,
    )  # fmt: skip
    lab.wait_until(
        lambda: lab.run("h2", "lbrun", "-H", "new", "true").returncode == 0
        and newcomer.run("lbrun", "-H", "h2", "true").returncode == 0,
        "it runs commands, and sends them", LONG_S, newcomer.log,
    )  # fmt: skip


def began(process):
    assert process.stdout.readline() == "begun\n", process.stderr.read()
    return process


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def test_a_host_leaves_without_a_trace_and_joins_again(tls_lab, newcomer):
    lab, words = tls_lab, ("sh", "-c", UNTIL_TOLD)
    there = began(lab.popen("h2", "lbrun", "-H", "new", *words, **PIPES, text=True))
    as_new = {"env": {"LBD_CONFIG": str(newcomer.config)}, "text": True, **PIPES}
    away = began(lab.popen("h1", "lbrun", "-H", "h2", *words, **as_new))
    leaving = lab.popen("h1", "lbctl", "leave", **as_new)
    lab.wait_until(lambda: lab.states("h1").get("new") == "drained", "it is drained", LONG_S)
    assert there.communicate("well\n", timeout=LONG_S)[0] == "done well\n"
    assert there.returncode == 7
    lab.wait_until(lambda: foreign_on(lab, "new") == 0, "no command of others is left", LONG_S)
    out, said = away.communicate("well\n", timeout=LONG_S)
    assert (out, away.returncode) == ("done well\n", 7), said
    out, said = leaving.communicate(timeout=LONG_S)
    cluster = newcomer.config.read_text().split('"')[1]
    assert (out, leaving.returncode) == (f"new has left cluster {cluster}\n", 0), said
    assert "of other hosts here or of its own users (lbctl jobs)" in said
    newcomer.stop()  # waits only for processes that have ended
    lab.wait_until(
        lambda: not any("new" in lab.states(host) for host in lab.hosts), "it is removed", LONG_S
    )
    assert not any(newcomer.root.glob("state/tls/*"))
    assert newcomer.run("lbctl", "leave").returncode == 0, "what is done is not done again"

    newcomer.join(new_token(lab, "new")).check_returncode()
    newcomer.start()
    wait_until_all_see_it(lab, newcomer)
    lab.wait_until(lambda: lab.states("h1").get("new") == "up", "its drain has ended", LONG_S)
    assert files_of(lab, "h2").read_revocations().lowest_issue("new") > 0, "its old key is no use"


def foreign_on(lab, host):
    rows = {row["name"]: row for row in lab.lbctl_json("h2", "status")["hosts"]}
    return rows[host]["jobs"]["foreign"]


def test_a_dead_host_is_forgotten_and_returns_if_it_was_not_revoked(tls_lab, newcomer):
    lab = tls_lab
    heard = lab.run("h2", "lbctl", "forget", "new")
    assert (heard.returncode, heard.stdout) == (1, "")
    assert "new is up" in heard.stderr
    lab.run("h1", "lbctl", "queue", "enable", "h1", check=True)  # so that it is told where it is
    lab.wait_until(
        lambda: lab.run("h2", "lbrun", "-q", "-H", "new", "true").returncode == 0,
        "the queue knows it", 30,
    )  # fmt: skip
    newcomer.die()
    waits = lab.run("h2", "lbrun", "-d", "-H", "new", "true", check=True).stdout.strip()
    done = lab.run("h2", "lbctl", "forget", "new", check=True)
    assert done.stdout == "new is removed from the cluster\n"
    assert "lbctl revoke new" in done.stderr
    assert "not by" not in done.stderr
    assert not any("new" in lab.states(host) for host in lab.hosts)
    lab.assert_all_served()
    assert lab.run("h2", "lbrun", "-H", "new", "true").returncode == 125
    unknown = "no host named new is known; it starts if one joins"
    lab.wait_until(
        lambda: lab.lbctl_json("h2", "job", waits)["reason"] == unknown,
        "the queue waits for it no longer", LONG_S,
    )  # fmt: skip
    newcomer.start()
    wait_until_all_see_it(lab, newcomer)
    assert lab.run("h2", "lbctl", "wait", waits).returncode == 0


def test_a_token_for_the_host_that_signed_the_cluster_settings_has_them_signed_again(tls_lab):
    """Otherwise the machine that replaces it would reject them."""

    def signer():
        shown = tls_lab.run("h1", "lbctl", "config", "show", "--changed", check=True).stdout
        return next(line for line in shown.splitlines() if "lim.min_gain" in line).split()[-1]

    change = ("lbctl", "config", "set", "lim.min_gain", "0.15", "--cluster")
    tls_lab.run("h2", *change, check=True)
    tls_lab.wait_until(lambda: signer().startswith("h2"), "h1 has them")
    done = tls_lab.run("h1", "lbctl", "token", "create", "h2", check=True)
    assert (
        "were signed by h2, to which this token gives a new certificate: now signed" in done.stderr
    )
    assert signer().startswith("h1")
    again = tls_lab.run("h1", "lbctl", "token", "create", "h2", check=True)
    assert "signed" not in again.stderr


def test_a_host_that_was_used_alone_takes_the_settings_of_the_cluster(tls_lab, bare):
    """Its own had a higher number: they replaced the drains of all hosts."""
    lab, me = tls_lab, bare.name
    bare.start()
    lab.wait_until(lambda: bare.run("lbctl", "status").returncode == 0, "it runs", LONG_S, bare.log)
    for _ in range(8):
        bare.run("lbctl", "drain", me, check=True)
        bare.run("lbctl", "undrain", me, check=True)
    lab.run("h1", "lbctl", "drain", "h2", "--reason", "KEEP ME", check=True)
    assert bare.join(new_token(lab, me)).returncode == 0
    bare.run("lbctl", "drain", me, check=True)  # its LIM is not restarted yet
    bare.run("lbctl", "undrain", me, check=True)
    bare.stop()
    bare.start()
    lab.wait_until(lambda: "KEEP ME" in bare.run("lbctl", "status").stdout, "it is told", LONG_S,
                   bare.log)  # fmt: skip
    assert all("KEEP ME" in lab.run(host, "lbctl", "status").stdout for host in lab.hosts)
    assert "KEEP ME" in lab.run("h2", "lbctl", "history", "--drains").stdout
    lab.run("h1", "lbctl", "undrain", "h2", check=True)
