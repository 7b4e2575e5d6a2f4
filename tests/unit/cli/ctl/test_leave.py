"""`lbctl leave` and `lbctl forget`: what is removed, and when they are refused."""

import os

import pytest

from lbd.cli.ctl.cluster import leave, units
from lbd.cli.lbctl import main
from lbd.config.load import load
from lbd.console import starting
from lbd.local.json_socket import HEARD
from lbd.process.pid_lock import take_pid_lock

RUN_PROGRAM = 0o755


@pytest.fixture
def member(tmp_path, monkeypatch):
    """Makes a host of a cluster whose daemons are stopped."""
    config = tmp_path / "lbd.toml"
    config.write_text(
        f'# ours\n[cluster]\nname = "c"\njoin = "10.0.0.1:7901"\n[host]\nname = "h4"\n'
        f'runtime_dir = "{tmp_path}/run"\nstate_dir = "{tmp_path}/state"\n'
    )
    monkeypatch.setenv("LBD_CONFIG", str(config))
    tls = tmp_path / "state/tls"
    tls.mkdir(parents=True)
    for name in ("host.pem", "authority.pem", "revoked", "authority-host"):
        (tls / name).write_text("x")
    for name in ("settings.json", "drained", "ledger.sqlite"):
        (tmp_path / "state" / name).write_text("x")
    return tmp_path


def test_leave_removes_what_makes_it_a_host_of_the_cluster(member, capsys):
    assert main(["leave"]) == 0
    said = capsys.readouterr()
    assert said.out == "h4 has left cluster c\n"
    assert "`lbctl revoke h4`" in said.err
    assert sorted(path.name for path in (member / "state").rglob("*")) == ["ledger.sqlite", "tls"]
    text = (member / "lbd.toml").read_text()
    assert text.startswith("# ours\n")
    assert load().cluster.join == ""
    assert main(["leave"]) == 0  # once more


def test_a_host_that_leaves_does_not_serve_the_status_page_after_its_next_start(
    tmp_path, monkeypatch
):
    """Only lbd.target was disabled; sockets.target starts lbd-web.socket, too."""
    calls = []
    monkeypatch.setattr(units.subprocess, "run", lambda words, **_: calls.append(words))
    monkeypatch.setattr(starting, "ENABLED", tmp_path)
    units.stop_for_good()
    for wants, unit in (("multi-user", "lbd.target"), ("sockets", "lbd-web.socket"),
                        ("lbd", "lbd-web.socket"), ("lbd", "lbd-metrics.service")):  # fmt: skip
        link = tmp_path / f"{wants}.target.wants" / unit
        link.parent.mkdir(exist_ok=True)
        link.touch()
    units.stop_for_good()
    disable = ("systemctl", "disable", "--now", "lbd.target")
    assert calls == [disable, (*disable, "lbd-metrics.service", "lbd-web.socket")]


@pytest.mark.parametrize(
    ("state", "is_enabled"),
    [("disabled", True), ("enabled", False), ("masked", False), ("", False)],
)
def test_a_host_that_joins_again_starts_its_daemons_with_the_machine(
    tmp_path, monkeypatch, state, is_enabled
):
    """`lbctl leave` had disabled them, and they were missing after the next boot."""
    file, calls = tmp_path / "lbd.toml", tmp_path / "calls"
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f"#!/bin/sh\necho $* >>{calls}\necho {state}\n")
    systemctl.chmod(RUN_PROGRAM)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(units, "SYSTEMD", tmp_path)
    assert units.enable(file) == ""  # not the file of the package's units
    monkeypatch.setattr(units, "SYSTEM_FILE", file)
    assert ("start with this machine" in units.enable(file)) is is_enabled
    enabled = ["--quiet enable lbd.target"] * is_enabled
    assert calls.read_text().splitlines() == ["is-enabled lbd.target", *enabled]


def test_leave_is_refused_on_the_host_of_the_authority(member, capsys):
    authority = member / "state-authority"
    authority.mkdir(mode=0o700)
    (authority / "authority.pem").write_text("x")
    (authority / "ledger.json").write_text("{}")
    assert main(["leave"]) == 1
    assert "authority is on this host" in capsys.readouterr().err
    assert (member / "state/tls/host.pem").exists()


@pytest.mark.parametrize(
    ("standby", "how"),
    [("", "enable it on another host"), ('"h5"', "`lbctl queue disable h4` leaves it on")],
)
def test_leave_is_refused_on_the_host_of_the_queue(member, capsys, standby, how):
    with (member / "lbd.toml").open("a") as file:
        file.write(f'[dispatch]\nhost = "h4"\nstandby = [{standby}]\n')
    assert main(["leave"]) == 1
    assert f"the queue is on this host: {how}" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [("h1: h4 is revoked", 0), ("no answer", 1)])
def test_a_revoked_standby_leaves_as_it_is_not_told_of_the_queue_any_more(
    member, monkeypatch, error, code
):
    with (member / "lbd.toml").open("a") as file:
        file.write('[dispatch]\nhost = "h1"\nstandby = ["h4"]\n')
    monkeypatch.setattr(leave.Daemons, "lim", lambda *_: {"peers": [{"error": error}]})
    assert main(["leave"]) == code


def test_forget_reports_the_hosts_that_did_not_answer(daemon, capsys):
    lim = daemon("lim", forget={"host": "h4", "missing": ["h3"], "listed": True})
    assert main(["forget", "h4"]) == 0
    said = capsys.readouterr()
    assert said.out == "h4 is removed from the cluster\n"
    assert "h3 did not confirm, or had just heard from it: run `lbctl" in said.err
    assert "run `lbctl revoke h4` on" in said.err
    assert "[[cluster.hosts]]" in said.err
    assert "on record" not in said.err, "it is still named as missing"
    assert lim.asked == [{"op": "forget", "host": "h4", "id": lim.asked[0]["id"]}]


def test_forget_does_not_advise_to_revoke_what_is_revoked(daemon, capsys):
    daemon("lim", forget={"host": "h4", "missing": [], "listed": False, "revoked": True})
    assert main(["forget", "h4"]) == 0
    assert "revoke" not in capsys.readouterr().err


@pytest.fixture
def heard(daemon, monkeypatch):
    """heard(*ages, dies=...) starts a LIM that reports these ages of h4, one per question. The LIM
    forgets h4 at the second try if `dies`, otherwise never; `lim.stale_after_s` is 12 s."""
    monkeypatch.setattr(leave, "LISTEN_S", 0.0)

    def make(*ages, dies):
        refusal = {"ok": False, "error": "h4 is up", "code": HEARD}
        tries = iter((refusal, {"ok": True, "host": "h4"} if dies else refusal))
        shown = iter([{"name": "h4", "age_s": age_s}] for age_s in ages)
        return daemon(
            "lim", param={"value": 12.0}, forget=lambda _: next(tries),
            status=lambda _: {"ok": True, "hosts": next(shown)},
        )  # fmt: skip

    return make


def test_forget_waits_for_a_host_that_just_died_until_it_is_stale_everywhere(heard, capsys):
    lim = heard(3.0, 7.5, 12.5, 13.0, dies=True)
    assert main(["forget", "h4"]) == 0
    said = capsys.readouterr()
    assert said.out == "h4 is removed from the cluster\n"
    assert said.err.startswith("lbctl: h4 was up 3 s ago; it will be removed once it has been "
                               "silent for 12 s")  # fmt: skip
    assert "jobs that only h4 had on record are in `lbctl stats`" in said.err
    assert [asked["op"] for asked in lim.asked].count("status") == 4


@pytest.mark.parametrize("ages", [(3.0, 7.5, 0.1), (3.0, None)])
def test_forget_does_not_wait_for_a_host_that_is_heard_again_or_has_left(heard, capsys, ages):
    heard(*ages, dies=False)
    assert main(["forget", "h4"]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == ["lbctl: h4 is up"]


@pytest.fixture
def runs(tmp_path):
    """Makes LIM and LBM look as if they ran there."""
    locks = [take_pid_lock(tmp_path / f"{name}.pid") for name in ("lim", "lbm")]
    yield
    for lock in locks:
        os.close(lock)


def test_leave_is_refused_while_commands_run_here_or_elsewhere(daemon, runs, capsys):
    lim = daemon("lim", drain={})
    daemon("lbm", status={"jobs": 1})
    assert main(["leave", "--timeout", "0"]) == 1
    assert "1 command is still running; h1 stays drained" in capsys.readouterr().err
    assert [asked["op"] for asked in lim.asked].count("drain") == 1


def test_somebody_else_is_told_who_may_before_anything_is_looked_at(
    daemon, runs, monkeypatch, capsys
):
    """The authority's directory was said not to be readable."""
    monkeypatch.setattr(leave.os, "geteuid", lambda: 4242)
    monkeypatch.setattr(leave, "is_here", open)
    daemon("lim")
    assert main(["leave"]) == 1
    assert "only root and the daemons' own user can do that" in capsys.readouterr().err


def test_daemons_started_by_lbd_up_are_stopped_the_same_way_even_with_systemd(member, monkeypatch):
    """As on a host with systemd whose lbd was installed by pip: there is no lbd.target."""
    run, killed = member / "run", []
    run.mkdir()
    lock = take_pid_lock(run / "up.pid")
    monkeypatch.setattr(units, "SYSTEMD", member)
    monkeypatch.setattr(units, "SYSTEM_FILE", member / "lbd.toml")
    monkeypatch.setattr(units.subprocess, "run", lambda *words, **_: killed.append(words))
    monkeypatch.setattr(leave.os, "kill", lambda pid, number: (killed.append(pid), os.close(lock)))
    leave.stop_daemons(load())
    assert killed == [os.getpid()]
