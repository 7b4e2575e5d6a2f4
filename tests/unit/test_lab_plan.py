"""The plan of a lab, before anything is created."""

import os
import random
import re
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.cli.daemons.up import daemons_of
from lbd.config import load as config_file
from lbd.errors import ConfigError
from lbd.lab import plan as planning
from lbd.lab.hosts import ENTER
from lbd.lab.plan import (
    INSIDE,
    Entrance,
    Plan,
    enter_script,
    keeping,
    owner_only,
    program_script,
)
from lbd.lab.record import Process, Record, load, save

PLAN = Plan(
    root=Path("/tmp/a lab"),
    hosts=("h1", "h2", "h3"),
    isolate="none",
    subnet="127.4.5",
    cores=1.5,
    algorithm="LOWEST",
    settings=(),
    allow_root=False,
    private=("/srv/a b",),
)


def config_of(plan, host, tmp_path):
    file = tmp_path / "lbd.toml"
    file.write_text(planning.toml(planning.host_sections(plan, host)))
    return config_file.load(str(file))


def test_the_generated_file_is_a_valid_configuration(tmp_path):
    config = config_of(PLAN, "h2", tmp_path)
    assert (config.host.name, config.host.address) == ("h2", "127.4.5.2")
    assert config.host.runtime_dir == "/tmp/a lab/h2/run"
    assert config.host.cores == 1.5
    assert config.lim.algorithm == "LOWEST"
    assert config.load.scope == "jobs"
    assert [entry.address for entry in config.cluster.hosts] == [
        "127.4.5.1",
        "127.4.5.2",
        "127.4.5.3",
    ]
    assert config.security.key_file
    assert not config.users.allow_root


def test_namespaces_hosts_measure_themselves_on_their_own_network(tmp_path):
    plan = replace(PLAN, isolate="namespaces", subnet="10.1.2", tls=True)
    config = config_of(plan, "h1", tmp_path)
    assert config.load.scope == "auto"
    assert not config.security.key_file
    assert config.host.address == "10.1.2.1"


def test_a_setting_may_be_a_list_of_names(tmp_path):
    never = ("gcc -E", 'a "quoted" one')
    setting = """eligibility.never=["gcc -E", 'a "quoted" one']"""
    config = config_of(replace(PLAN, settings=(setting,)), "h1", tmp_path)
    assert config.eligibility.never == never


def test_lbrun_finds_the_runtime_directory_by_its_line():
    text = planning.toml(planning.host_sections(PLAN, "h1"))
    assert re.search(r'^runtime_dir = "/tmp/a lab/h1/run"$', text, re.MULTILINE)


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("lim.algorithm=CENTRAL", "lim", "algorithm", "CENTRAL"),
        ('lim.algorithm="CENTRAL"', "lim", "algorithm", "CENTRAL"),
        ("lim.min_gain = 0.5", "lim", "min_gain", 0.5),
        ("lbm.slots=3", "lbm", "slots", 3),
        ("users.allow_root=true", "users", "allow_root", True),
    ],
)
def test_a_setting_reaches_every_host(setting, section, key, value, tmp_path):
    config = config_of(replace(PLAN, settings=(setting,)), "h3", tmp_path)
    assert getattr(getattr(config, section), key) == value


def test_a_configured_port_is_the_port_others_are_told(tmp_path):
    config = config_of(replace(PLAN, settings=("lim.port=7001",)), "h1", tmp_path)
    assert {entry.lim_port for entry in config.cluster.hosts} == {7001}
    assert config.lim.port == 7001


@pytest.mark.parametrize("setting", ["", "lim", "lim=3", ".a=3", "lim.=3", "host.name=x"])
def test_a_bad_setting_is_refused_in_one_line(setting):
    with pytest.raises(ConfigError) as refusal:
        planning.parse_setting(setting)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("count", [0, -1, 255])
def test_an_impossible_number_of_hosts_is_refused(count):
    with pytest.raises(ConfigError, match="from 1 to 254"):
        planning.host_names(count)


def test_a_directory_too_long_for_sockets_is_refused():
    names = planning.host_names(100)
    planning.check_root(Path("/tmp/" + "d" * 81), names)
    with pytest.raises(ConfigError, match="86 characters"):
        planning.check_root(Path("/tmp/" + "d" * 82), names)


@pytest.mark.parametrize(
    ("place", "isolate", "part"),
    [
        ("/srv", "none", "needs hosts in namespaces"),
        ("/tmp/a lab", "namespaces", "the lab is in it"),
        ("/", "namespaces", "the lab is in it"),
        ("/opt/python", "namespaces", "Python is in it"),
    ],
)
def test_what_all_hosts_need_stays_shared(place, isolate, part):
    shared = {"the lab": Path("/tmp/a lab"), "Python": Path("/opt/python/3")}
    planning.check_private([Path("/srv")], "namespaces", shared)
    with pytest.raises(ConfigError, match=part):
        planning.check_private([Path(place)], isolate, shared)


def test_an_unknown_algorithm_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match='did you mean "LOWEST"'):
        planning.check_algorithm("lowst")


@pytest.mark.parametrize(("isolate", "first"), [("none", "127"), ("namespaces", "10")])
def test_a_subnet_is_loopback_or_private(isolate, first):
    rng = random.Random(4)
    for _ in range(200):
        head, second, third = planning.choose_subnet(isolate, rng).split(".")
        assert head == first
        assert 1 <= int(second) <= 254
        assert 0 <= int(third) <= 254


@pytest.mark.parametrize(("cores", "hosts", "share"), [(2, 4, 0.5), (16, 4, 4.0), (2, 10, 0.5)])
def test_a_host_has_its_share_of_the_machine_but_at_least_half_a_core(cores, hosts, share):
    assert planning.share_of_machine(cores, hosts) == share


def test_the_cgroup_depends_on_the_directory_alone():
    assert planning.cgroup_name(Path("/a")) == planning.cgroup_name(Path("/a"))
    assert planning.cgroup_name(Path("/a")) != planning.cgroup_name(Path("/b"))


def test_exports_are_quoted_for_a_shell():
    text = planning.exports({"LBD_CONFIG": "/tmp/it's/x"}, ["/a dir/bin"])
    script = f'PATH=/usr/bin:/bin\n{text}\nprintf "%s|%s" "$LBD_CONFIG" "$PATH"'
    result = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "/tmp/it's/x|/a dir/bin:/usr/bin:/bin"


def test_entering_joins_the_cgroups_before_the_namespaces():
    steps = Entrance(("/sys/fs/cgroup/a b",), 77).steps("/py", Path("/enter.py"))
    may, join, enter = steps.splitlines()
    assert may.startswith("[ -w '/sys/fs/cgroup/a b/cgroup.procs' ] || ")
    assert join == "echo 0 > '/sys/fs/cgroup/a b/cgroup.procs'"
    assert enter.startswith("exec nsenter -F -t 77 ")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_who_may_not_enter_is_told_how_to():
    # pytest's own directories are for their owner alone
    with tempfile.TemporaryDirectory() as group:
        Path(group).chmod(0o755)
        Path(group, "cgroup.procs").touch(0o644)
        denied = owner_only(Path("/tmp/a lab"), "h2")
        steps = Entrance((group,), 77).steps("/py", Path("/enter.py"), denied=denied)
        command = ["/bin/sh", "-c", steps]
        result = subprocess.run(command, capture_output=True, text=True, check=False, user=65534)
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr == (
        "lbd lab: only the lab's owner may enter; there as another user: `lbd lab exec h2 --dir "
        "'/tmp/a lab' -- runuser -u USER -- COMMAND`, typed by root\n"
    )


def test_a_record_survives_a_round_trip(tmp_path):
    plan = replace(PLAN, root=tmp_path, settings=("lbm.slots=3",))
    group = f"/c/{planning.cgroup_name(tmp_path)}"
    record = Record(plan, True, True, (group,), (("h1", "h2"),), {"h1/lim": Process(5, 77)})
    save(record)
    assert load(tmp_path) == record
    assert record.peers_cut_from("h2") == ["h1"]
    assert load(tmp_path / "elsewhere") is None


def test_toml_survives_any_text():
    text = 'quote " backslash \\ tab \t delete \x7f umlaut ü newline \n'
    assert tomllib.loads(planning.toml({"host": {"name": text}}))["host"]["name"] == text


def test_a_dispatcher_runs_where_one_may_lead(tmp_path):
    settings = ("dispatch.host=h1", 'dispatch.standby=["h3"]')
    plan = replace(PLAN, settings=settings)
    queue = {host: "dispatcher" in plan.daemons(host) for host in plan.hosts}
    assert queue == {"h1": True, "h2": False, "h3": True}
    for host, there in queue.items():
        config = config_of(plan, host, tmp_path)
        assert config.dispatch.hosts == ("h1", "h3")
        assert ("dispatcher" in daemons_of(config, keeper=False)) is there
    assert not replace(PLAN, settings=(*settings, "dispatch.host=")).has_queue


def test_metrics_are_shown_if_configured(tmp_path):
    plan = replace(PLAN, host_settings=("h2:metrics.listen=:9470",))
    for host, there in {"h1": False, "h2": True, "h3": False}.items():
        assert ("metrics" in plan.daemons(host)) is there
        config = config_of(plan, host, tmp_path)
        assert ("metrics" in daemons_of(config, keeper=False)) is there
    everywhere = replace(PLAN, settings=("metrics.listen=127.0.0.1:9470",))
    assert all("metrics" in everywhere.daemons(host) for host in PLAN.hosts)


@pytest.mark.parametrize(
    ("settings", "term_s"),
    [((), 10.0), (("dispatch.lease_s=1",), 0.5), (("dispatch.leader_lease_s=4",), 4.0)],
)
def test_the_lease_of_a_leader_is_a_third_of_that_of_an_attempt(tmp_path, settings, term_s):
    assert config_of(replace(PLAN, settings=settings), "h1", tmp_path).dispatch.term_s == term_s


ODD = {
    b"A.B": b"1",
    b"BASH_FUNC_f%%": b"() { :; }",
    "é".encode(): b"\xff",
    b"1X": b"=it's\n",
    b"_": b"/x",
}


@pytest.mark.parametrize("inside", [True, False])
def test_variables_that_are_not_shell_names_pass_through_the_scripts(tmp_path, inside):
    """And if there are none, nothing else is run before the program."""
    steps, kept = Entrance().steps(sys.executable, ENTER), keeping(sys.executable, ENTER)
    shows = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(b'='.join(item) for item in"
    shows += " os.environb.items()))"
    words = ["-I", "-S", "-c", shows]
    texts = {
        "enter": (enter_script("h1", tmp_path, steps, kept), [sys.executable, *words]),
        "program": (program_script("h1", tmp_path, steps, kept, sys.executable), words),
    }
    plain = {b"PATH": b"/usr/bin:/bin", b"PLAIN": b"a b"}
    if inside:
        plain[INSIDE.encode()] = os.fsencode(tmp_path)
    for name, (text, arguments) in texts.items():
        (tmp_path / name).write_text(text)
        for given in (plain, {**plain, **ODD}):
            shown = subprocess.run(
                ["/bin/sh", tmp_path / name, *arguments], env=given, capture_output=True,
                check=True, stdin=subprocess.DEVNULL,
            ).stdout  # fmt: skip
            found = dict(entry.split(b"=", 1) for entry in shown.split(b"\0"))
            assert found.items() >= given.items(), name
            beside = {b"PWD", b"LC_CTYPE", INSIDE.encode(), b"_", b"OLDPWD"}
            assert found.keys() - given.keys() <= beside, name


def test_without_namespaces_nobody_stands_between_the_caller_and_the_command(tmp_path):
    """`timeout 3 make SHELL=lbsh` ends a group of processes, in which the commands were not. And a
    removed directory cannot be entered, but one may be in it."""
    steps, kept = Entrance().steps(sys.executable, ENTER), keeping(sys.executable, ENTER)
    path, gone = tmp_path / "enter", tmp_path / "gone"
    path.write_text(enter_script("h1", tmp_path, steps, kept))
    gone.mkdir()
    words = ["/bin/sh", "-c", 'rmdir "$0" && echo $$ && exec /bin/sh "$@"', gone, path]
    shows = subprocess.run(
        [*words, "/bin/sh", "-c", "echo $$"], cwd=gone, capture_output=True, text=True, check=True
    )
    caller, command = shows.stdout.split()
    assert caller == command


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nosuch", "x"], 127, "nosuch: No such file or directory"),
        (["/none/nosuch"], 127, "/none/nosuch: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["/etc"], 126, "/etc: Permission denied"),
        ([""], 125, "no command given"),
        ([], 125, "no command given"),
    ],
)
def test_what_is_no_command_is_named_as_with_namespaces(tmp_path, words, status, said):
    """It was the shell that did, with the path of its script; without a word nothing happened."""
    steps, kept = Entrance().steps(sys.executable, ENTER), keeping(sys.executable, ENTER)
    path = tmp_path / "enter"
    path.write_text(enter_script("h1", tmp_path, steps, kept))
    ours = ["/bin/sh", path, *words]
    inside = [sys.executable, "-I", "-S", ENTER, tmp_path, *words]
    for command in (ours, inside):
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stdout, found.stderr) == (status, "", f"lbd lab: {said}\n")
