"""`lbctl restart` against canned daemons."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl import restart, startable
from lbd.errors import Unavailable


@pytest.mark.parametrize("held", [None, "", "no pid\n", "-1\n"])
def test_without_a_pid_no_process_is_signalled(daemon, monkeypatch, tmp_path, capsys, held):
    """Process 0 would mean the whole process group of lbctl's caller, -1 every process."""
    signalled = []
    monkeypatch.setattr(os, "kill", lambda pid, number: signalled.append(pid))
    server = daemon("lim", status={})
    file = os.path.join(os.path.dirname(server.server_address), "lim.pid")
    if held is not None:
        with open(file, "w", encoding="ascii") as pid_file:
            pid_file.write(held)
    assert lbctl.main(["restart", "lim"]) == 1
    assert signalled == []
    assert file in capsys.readouterr().err


def test_daemons_that_something_starts_again_are_restarted(daemon, monkeypatch, capsys):
    """A web page that a person started would only end."""
    server = daemon("lim", status={})
    place = os.path.dirname(server.server_address)
    for name in ("lbm", "dispatcher", "metrics", "web"):
        daemon(name, status={})
        with open(os.path.join(place, f"{name}.pid"), "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
    with open(os.path.join(place, "lim.pid"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    asked = []

    def restarted(daemons, name):
        asked.append(name)
        return 1

    monkeypatch.setattr(restart, "restarted", restarted)
    assert lbctl.main(["restart"]) == 0
    assert asked == ["lim", "lbm", "dispatcher", "metrics"]
    monkeypatch.setattr(restart, "is_of_unit", lambda pid, unit: unit == "lbd-web.service")
    asked.clear()
    assert lbctl.main(["restart"]) == 0
    assert asked == ["lim", "lbm", "dispatcher", "metrics", "web"]
    assert lbctl.main(["restart", "keeper"]) == 2


def test_those_left_out_after_one_that_does_not_answer_are_named(daemon, monkeypatch, capsys):
    """On a busy machine the LIM took 33 s to start after `lbctl join`, and the LBM went on without
    the certificate: nothing said that it had not been restarted."""
    for name in ("lim", "lbm", "metrics"):
        daemon(name, status={})

    def restarted(daemons, name):
        raise Unavailable(f"{name} does not answer yet; see: journalctl -u lbd-{name}.service")

    monkeypatch.setattr(restart, "restarted", restarted)
    monkeypatch.setattr(restart, "obstacles", lambda config, names: [])
    assert lbctl.main(["restart"]) == 1
    assert capsys.readouterr().err == (
        "lbctl: lim does not answer yet; see: journalctl -u lbd-lim.service; not restarted: lbm, "
        "metrics; type `lbctl restart` again once it answers\n"
    )
    assert lbctl.main(["restart", "lim"]) == 1
    assert "not restarted" not in capsys.readouterr().err


def test_a_dispatcher_that_no_longer_belongs_here_ends_and_the_other_daemons_follow(daemon, capsys):
    """After `lbctl queue disable` nobody starts it again; the daemons after it were left out."""
    server = daemon("lim", settings={"saved": {"dispatch.host": '""'}})
    place = os.path.dirname(server.server_address)
    daemon("dispatcher", status={})
    with subprocess.Popen(["sleep", "60"]) as old:
        reaping = threading.Thread(target=old.wait)  # as its parent does
        reaping.start()
        with open(os.path.join(place, "dispatcher.pid"), "w", encoding="ascii") as file:
            file.write(str(old.pid))
        assert lbctl.main(["restart", "dispatcher"]) == 0
        reaping.join()
    assert capsys.readouterr().out == "dispatcher has ended: the queue is not on this host\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="the authority is root's")
def test_the_authority_is_restarted_by_the_pid_that_the_kernel_reports(daemon, monkeypatch, capsys):
    """Its process has no pid file, and the daemons' account could put one there."""
    server, signalled = daemon("authority", list={"made": ""}), []
    place = os.path.dirname(server.server_address)
    with open(os.path.join(place, "authority.pid"), "w", encoding="ascii") as file:
        file.write("1")

    def kill(pid, number):
        signalled.append((pid, number))
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    assert lbctl.main(["restart", "authority"]) == 1
    assert signalled == [(os.getpid(), signal.SIGUSR2)]
    assert "authority (pid" in capsys.readouterr().err
    daemon("lim", status={})
    asked = []
    monkeypatch.setattr(restart, "restarted", lambda daemons, name: asked.append(name) or 1)
    assert lbctl.main(["restart"]) == 0
    assert asked == ["authority", "lim", "lbm"]


@pytest.mark.skipif(os.geteuid() != 0, reason="not root")
@pytest.mark.parametrize(("account", "is_signalled"), [((65534,), True), ((), False)])
def test_a_page_that_root_started_runs_as_the_account_of_the_daemons_by_now(
    daemon, monkeypatch, account, is_signalled
):
    server = daemon("web", status={})
    signalled = []
    monkeypatch.setattr(restart, "daemons_account", lambda _: account)
    monkeypatch.setattr(restart, "RETURN_S", 0.0)
    with subprocess.Popen(["sleep", "60"], user=65534) as page:
        place = os.path.dirname(server.server_address)
        with open(os.path.join(place, "web.pid"), "w", encoding="ascii") as file:
            file.write(str(page.pid))
        with monkeypatch.context() as patched:
            patched.setattr(os, "kill", lambda *given: signalled.append(given))
            assert lbctl.main(["restart", "web"]) == 1  # in this test it does not come back
        page.terminate()
    assert signalled == [(page.pid, signal.SIGUSR2)] * is_signalled


def test_nothing_is_restarted_that_could_not_start_again(daemon, monkeypatch, capsys):
    server = daemon("lim", status={})
    Path(server.server_address).with_name("lim.pid").write_text("1")
    asked = []
    monkeypatch.setattr(os, "kill", lambda pid, number: asked.append(pid))
    monkeypatch.setattr(
        restart, "obstacles", lambda config, names: iter(["10.9.9.9 is not here; move"])
    )
    assert lbctl.main(["restart", "lim"]) == 1
    assert asked == []
    said = "lbctl: nothing is restarted, as it could not start again: 10.9.9.9 is not here; move\n"
    assert capsys.readouterr().err == said


def test_why_a_unit_failed_is_said_in_its_own_words(monkeypatch):
    log = "Started.\nlbd lim: cannot listen on 10.9.9.9:7901: in use\nlim: Failed.\n"
    state = {"systemctl": "failed", "journalctl": log}
    monkeypatch.setattr(startable, "said_by", lambda program, *_: state[program])
    said = "lim did not start again: cannot listen on 10.9.9.9:7901: in use"
    assert startable.failure("lim", "lbd-lim.service") == said
    assert startable.failure("lim", "") == ""
    state["systemctl"] = "activating"  # it is tried again
    assert startable.failure("lim", "lbd-lim.service") == ""


@pytest.mark.parametrize("is_roots", [True, False])
def test_a_daemon_that_should_run_and_does_not_is_started(daemon, monkeypatch, capsys, is_roots):
    """It was an error, and the daemons after it were not restarted."""
    place = os.path.dirname(daemon("lbm", status={}).server_address)
    run = []

    def said_by(*words):
        run.append(words)
        daemon("lim", status={})
        Path(place, "lim.pid").write_text(str(os.getpid()))
        return ""

    monkeypatch.setattr(restart, "said_by", said_by)
    monkeypatch.setattr(restart, "by_systemd", lambda daemons: is_roots)
    assert lbctl.main(["restart", "lim"]) == (0 if is_roots else 1)
    if is_roots:
        assert run == [("systemctl", "start", "lbd-lim.service")]
        assert capsys.readouterr().out == f"lim was restarted, pid {os.getpid()}\n"
    else:
        assert run == []
        assert "start it with: " in capsys.readouterr().err
