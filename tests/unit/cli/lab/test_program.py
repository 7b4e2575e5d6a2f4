"""Impossible requests to `lbd lab`, and requests for a lab that does not exist."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.cli import main
from lbd.cli.lab import experiment
from lbd.cli.lab.program import before_command, way_in
from lbd.lab import lab, record
from lbd.lab.plan import INSIDE, Plan, cgroup_name


@pytest.fixture(autouse=True)
def own_signals():
    """Restores the signal handlers: `lbd lab` turns a signal to stop into an exception."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["up", "--hosts", "0"], 2, "from 1 to 254"),
        (["up", "--hosts", "many"], 2, "invalid int"),
        (["up", "--cpus", "-1"], 2, "0.01 to 4096"),
        (["up", "--cpus", "0"], 2, "--cpus 0: from 0.01 to 4096"),
        (["up", "--isolate", "jail"], 2, "namespaces"),
        (["up", "--algorithm", "GLOBUL"], 2, 'did you mean "GLOBAL"'),
        (["up", "--set", "lim.prot=1"], 2, 'did you mean "port"'),
        (["up", "--set", "lim"], 2, "section.key=value"),
        (["up", "--set", "host.name=x"], 2, "for each host"),
        (["up", "--mode", "fsfc"], 2, "fcfs"),
        (["up", "--store", "mysql://x"], 2, "sqlite:///a/file"),
        (["upp"], 2, "no command 'upp'; did you mean \"up\"?"),
        ([], 2, "COMMAND"),
        (["status"], 1, "no lab"),
        (["env", "h1"], 1, "no lab"),
        (["kill", "h1", "lim"], 1, "no lab"),
        (["start", "h1"], 1, "no lab"),
        (["cut", "h1", "h2"], 1, "no lab"),
        (["heal"], 1, "no lab"),
    ],
)
def test_bad_input_is_one_line(tmp_path, complaint, words, code, says):
    root = tmp_path / "lab"
    assert main.main(["lab", *words, *(["--dir", str(root)] if len(words) else [])]) == code
    err = complaint()
    assert err.startswith("lbd lab")
    assert says in err
    assert not root.exists()


@pytest.mark.parametrize(
    ("words", "own", "command"),
    [
        ("h1 uname -n", "h1", "uname -n"),
        ("h1 -- uname -n", "h1", "uname -n"),
        ("h1 ls -- -n", "h1", "ls -- -n"),
        ("--dir d h1 uname -n", "--dir d h1", "uname -n"),
        ("h1 --dir d uname --dir e", "h1 --dir d", "uname --dir e"),
        ("h1 --dir=d -- --dir=e", "h1 --dir=d", "--dir=e"),
        ("h1 --help", "h1 --help", ""),
        ("h1", "h1", ""),
    ],
)
def test_what_follows_the_host_is_the_command(words, own, command):
    found = before_command(["exec", *words.split()])
    assert found == (["exec", *own.split()], command.split())


def test_how_to_act_from_a_host_with_private_directories():
    plan = Plan(Path("/l"), ("h1",), "namespaces", "10.0.0", 1.0, "", (), allow_root=True)
    assert way_in(plan, "") == 'eval "$(lbd lab env h1)"'
    private = replace(plan, private=("/tmp/mine",))
    assert way_in(private, " --dir /l") == "lbd lab exec h1 --dir /l -- runuser -u USER bash"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """made(NAME) makes a lab that is up on record while nothing of it runs."""
    monkeypatch.setattr(record, "default_runtime_dir", lambda: str(tmp_path / "run"))
    monkeypatch.delenv("LBD_CONFIG", raising=False)
    monkeypatch.delenv(INSIDE, raising=False)

    def make(name):
        root = tmp_path / name
        root.mkdir(parents=True)
        plan, _ = lab.make_plan(root, 2, None, "none", "", (), (), False, ())
        record.save(record.Record(plan, made_root=True, ready=True))
        return root

    return make


def shown(capsys, *words):
    assert main.main(["lab", *words]) == 0
    return capsys.readouterr().out


def test_in_a_shell_set_up_for_a_lab_its_commands_need_no_directory(made, monkeypatch, capsys):
    here, other = made("here"), made("run/lab")
    assert str(other) in shown(capsys, "env", "h2")
    monkeypatch.setenv("LBD_CONFIG", str(here / "h1/lbd.toml"))
    assert f"{here}/h2/" in shown(capsys, "env", "h2")
    assert str(other) in shown(capsys, "env", "h2", "--dir", str(other))
    monkeypatch.setenv("LBD_CONFIG", str(here / "h3/lbd.toml"))
    assert str(other) in shown(capsys, "env", "h2"), "no host of that lab"


def test_who_may_not_enter_a_lab_is_told_so_by_env(made, tmp_path, monkeypatch, capsys):
    """It succeeded, and then each command failed."""
    root = made("run/lab")
    group = tmp_path / cgroup_name(root)
    (group / "h1").mkdir(parents=True)
    (group / "h1/cgroup.procs").touch()
    found = record.load(root)
    record.save(replace(found, cgroups=(str(group),)))
    assert str(root) in shown(capsys, "env", "h1")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main.main(["lab", "env", "h1"]) == 1
    assert f"`lbd lab exec h1 --dir {root} -- runuser -u USER" in capsys.readouterr().err
    assert str(root) in shown(capsys, "env", "h2"), "which has no such group"


def test_a_lab_is_not_managed_from_inside_one_of_its_hosts(made, monkeypatch, capsys):
    """Its processes are not visible from there: `down` would remove the record of what runs."""
    root = made("here")
    monkeypatch.setenv("LBD_CONFIG", str(root / "h1/lbd.toml"))
    monkeypatch.setenv(INSIDE, str(root))
    assert main.main(["lab", "down"]) == 1
    assert capsys.readouterr().err == (
        f"lbd lab: this shell is inside a host of the lab in {root}: leave it first (exit)\n"
    )
    assert record.load(root) is not None


@pytest.mark.parametrize("has_one", [True, False])
def test_a_lab_is_never_started_in_place_of_the_one_this_shell_is_set_up_for(
    made, monkeypatch, capsys, has_one
):
    started = []
    monkeypatch.setattr(lab, "up", lambda plan, *_, **__: started.append(plan.root))
    usual = record.own_place("lab")
    if has_one:
        monkeypatch.setenv("LBD_CONFIG", str(made("here") / "h1/lbd.toml"))
    said = shown(capsys, "up", "--hosts", "1", "--isolate", "none")
    assert started == [usual]
    assert (f"--dir {usual}" in said) is has_one, "else `env` would find the other"


@pytest.mark.root
def test_no_one_is_let_into_another_users_lab(tmp_path, capsys):
    """`lbd lab env` printed its exports, and then nothing worked."""
    plan = Plan(tmp_path, ("h1",), "none", "127.1.1", 0.0, "", (), allow_root=False)
    record.save(record.Record(plan, made_root=True, ready=True))
    assert main.main(["lab", "env", "--dir", str(tmp_path), "h1"]) == 0
    os.chown(record.record_file(tmp_path), 65534, 65534)
    capsys.readouterr()
    assert main.main(["lab", "env", "--dir", str(tmp_path), "h1"]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("lbd lab: this lab belongs to nobody")


def test_who_has_no_lab_is_told_of_that_of_root(tmp_path):
    """Users were told to start one, while root's, which serves them, ran."""
    own, shared = tmp_path / "own", tmp_path / "lab"
    assert lab.of_root(own, shared) == ""
    shared.mkdir()
    record.record_file(shared).touch()
    assert lab.of_root(own, shared) == (
        f"root's lab is in {shared}, where users act by "
        "`lbd lab exec HOST -- runuser -u USER -- COMMAND`, typed by root"
    )
    assert lab.of_root(shared, shared) == ""


def test_an_experiment_that_cannot_be_run_here_leaves_no_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(experiment, "why_not", lambda: "namespaces need root")
    out = tmp_path / "found"
    assert main.main(["lab", "experiment", "--out", str(out)]) == 1
    assert "namespaces need root" in capsys.readouterr().err
    assert not out.exists()
