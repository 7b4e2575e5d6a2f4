"""A user's lab is found by programs that act from none of its hosts."""

import math
import os
import socket
from types import SimpleNamespace

import pytest

from lbd.cli.ctl.jobs.queued_jobs import patiently
from lbd.client import lbrun
from lbd.client.complaints import Trouble
from lbd.client.options import read_options
from lbd.client.start_wait import lab_remedy
from lbd.config.schema import Config, HostConfig
from lbd.console.daemons import Daemons, NeverRan
from lbd.console.plain_commands import Waiting
from lbd.errors import ConfigError, Unavailable
from lbd.local.json_socket import Refusal
from lbd.local.own_lab import MADE_BY, belongs_to_another, others_lab, own_lab_advice

ADVICE = 'a lab of yours is running; type: eval "$(lbd lab env h2)"'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The user's runtime directory, with a lab of three hosts, of which h2 and h10 run."""
    monkeypatch.setattr("lbd.local.own_lab.default_runtime_dir", lambda: str(tmp_path))
    tmp_path.chmod(0o711)
    for host in ("h1", "h2", "h10"):
        (tmp_path / "lab" / host / "run").mkdir(parents=True)
    listening = []
    for host in ("h2", "h10"):
        listening.append(socket.socket(socket.AF_UNIX))
        path = tmp_path / "lab" / host / "run" / "lbm.sock"
        here = os.getcwd()
        os.chdir(path.parent)  # the path may be too long for a socket
        try:
            listening[-1].bind("lbm.sock")
        finally:
            os.chdir(here)
        listening[-1].listen(1)
    yield tmp_path
    for sock in listening:
        sock.close()


def test_the_first_host_that_answers_is_named(place):
    assert own_lab_advice(str(place)) == own_lab_advice("/run/lbd") == ADVICE


def test_from_one_of_its_hosts_it_is_no_news(place):
    assert own_lab_advice(f"{place}/lab/h1/run") == ""


def test_a_lab_that_does_not_run_or_that_others_could_change_is_not_offered(place):
    place.chmod(0o777)
    assert own_lab_advice(str(place)) == ""
    place.chmod(0o711)
    for host in ("h2", "h10"):
        (place / "lab" / host / "run" / "lbm.sock").unlink()
    assert own_lab_advice(str(place)) == ""


def test_lbctl_names_the_lab_and_does_not_wait_for_daemons_that_never_ran(place):
    daemons = Daemons(Config(host=HostConfig(runtime_dir=str(place))))
    with pytest.raises(NeverRan, match=r"lbm is not running .*; a lab of yours is running; type"):
        patiently(daemons, {"op": "queue.jobs"})


def test_lbctl_waits_for_a_daemon_only_where_one_has_run(tmp_path, monkeypatch):
    """`lbctl wait` of a user without an LBM tried for a minute."""
    monkeypatch.setattr("lbd.cli.ctl.jobs.queued_jobs.RETRY_S", 0.0)
    place = tmp_path / "run"
    daemons = Daemons(Config(host=HostConfig(runtime_dir=str(place))))
    with pytest.raises(NeverRan, match=r"lbm is not running .*; .*start it with: "):
        patiently(daemons, {"op": "queue.jobs"})
    with pytest.raises(NeverRan):
        Waiting(daemons, ["h1-3"]).until(math.inf)
    place.mkdir()  # as it is left by `lbd up`
    with pytest.raises(Unavailable, match="lbm is not running") as found:
        patiently(daemons, {"op": "queue.jobs"}, patience_s=0.01)
    assert not isinstance(found.value, NeverRan)


def test_lbctl_waits_for_a_lim_that_the_lbm_does_not_reach(monkeypatch):
    """`lbctl wait` said `trying again for 57 s` and ended some seconds later."""
    monkeypatch.setattr("lbd.cli.ctl.jobs.queued_jobs.RETRY_S", 0.0)
    answers = [Refusal("lim did not answer within 2 s", "unavailable"), {"jobs": []}]

    def lbm(question, timeout_s):
        found = answers.pop(0)
        if isinstance(found, Refusal):
            raise found
        return found

    assert patiently(SimpleNamespace(lbm=lbm), {"op": "queue.jobs"}) == {"jobs": []}


def test_where_a_daemon_ran_both_remedies_are_given(place):
    (place / "lbm.pid").write_text("999999999\n")
    daemons = Daemons(Config(host=HostConfig(runtime_dir=str(place))))
    with pytest.raises(Unavailable, match=r"start it with: .*; or use your lab: a lab of") as found:
        daemons.lbm({"op": "queue.jobs"})
    assert not isinstance(found.value, NeverRan)


def test_lbrun_names_the_lab_too(place):
    assert lab_remedy("no lbm is running here", [str(place)]) == f"; {ADVICE}"
    assert lab_remedy("this host's LBM does not answer", [str(place)]) == ""


WHOSE = "this lab belongs to nobody, and only a lab that root starts is for all users"


@pytest.fixture
def of_nobody(tmp_path, monkeypatch):
    """The runtime directory of a host of another user's lab."""
    place = tmp_path / "lab" / "h1"
    (place / "run").mkdir(parents=True)
    (place / "lbd.toml").write_text(f'{MADE_BY}\n[host]\nruntime_dir = "{place}/run"\n')
    (tmp_path / "lab" / "lab.json").write_text("{")
    for path in (place, place / "run", place / "lbd.toml", tmp_path / "lab" / "lab.json"):
        os.chown(path, 65534, 65534)
    monkeypatch.setenv("LBD_CONFIG", f"{place}/lbd.toml")
    return place / "run"


@pytest.mark.root
def test_another_users_lab_is_named_as_that(of_nobody, monkeypatch):
    """`lbctl` advised to have it removed, and `lbrun` to start it, though it ran."""
    assert others_lab(str(of_nobody)) == WHOSE
    with pytest.raises(ConfigError, match=f"^{WHOSE}$"):
        Daemons(Config(host=HostConfig(runtime_dir=str(of_nobody)))).lbm({"op": "status"})
    for words in (["-d"], ["-H", "h2"], ["--need", "gpu"]):
        with pytest.raises(Trouble, match=f"^{WHOSE}(, so |$)"):
            lbrun.run(read_options([*words, "true"]))
    assert belongs_to_another(str(of_nobody.parent / "lbd.toml")) == WHOSE
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert others_lab(str(of_nobody)) == ""


@pytest.mark.root
def test_whose_a_lab_is_that_cannot_be_looked_into(of_nobody, monkeypatch):
    """The owner is that of the first directory above that can be seen."""

    def denied(path, real=os.lstat):
        if str(path).endswith(("lab.json", "/lab")):
            raise PermissionError
        return real(path)

    lab = of_nobody.parent.parent
    os.chown(lab.parent, 65534, 65534)
    monkeypatch.setattr(os, "lstat", denied)
    assert belongs_to_another(f"{lab}/lab.json") == WHOSE
