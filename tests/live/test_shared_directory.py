"""A command leaves only for a host on which its working directory is the same one.

The hosts are in namespaces, and each has a file system of its own at `lab.private`; they share
everything else.
"""

import json
import os
from pathlib import Path

import pytest
from contract import assert_one_line

from tests.live.cluster import FAST, Lab
from tests.live.conftest import need_namespaces


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    need_namespaces()
    private = tmp_path_factory.mktemp("private")
    settings = (*FAST, "lbm.unshared_s=3600")
    lab = Lab.up(3, "namespaces", "--private", private, "--mode", "fcfs", settings=settings)
    lab.private = private
    yield lab
    lab.down()


def inside(lab, host, script, *words, **options):
    """Runs a shell script in the private directory of a host."""
    script = f"cd {lab.private} && {script}"
    return lab.run(host, "sh", "-c", script, "sh", *words, **options)


def test_each_host_has_a_private_directory(lab):
    for host in lab.hosts:
        inside(lab, host, f"echo {host} > whose", check=True)
    seen = [inside(lab, host, "cat whose").stdout.strip() for host in lab.hosts]
    assert seen == list(lab.hosts)
    assert os.listdir(lab.private) == []


def test_a_shared_directory_is_used(lab, tmp_path):
    for directory in (tmp_path, Path("/"), Path("/tmp")):
        result = lab.run("h1", "lbrun", "-H", "h2", "sh", "-c", "pwd; echo $LBD_HOST",
                         cwd=directory)  # fmt: skip
        assert (result.stderr, result.stdout) == ("", f"{directory}\nh2\n")


def test_a_named_host_with_another_directory_refuses(lab):
    """Same path, same inode: the root of a tmpfs has the same number everywhere."""
    result = inside(lab, "h1", "lbrun -H h2 touch ran")
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", "h2", str(lab.private), "is not shared with h1")
    assert not [host for host in lab.hosts if "ran" in inside(lab, host, "ls").stdout]


def test_the_queue_gives_the_same_reason_and_remedy(lab):
    result = inside(lab, "h1", "lbrun -q -H h2 touch ran")
    assert (result.returncode, result.stdout) == (125, "")
    remedy = "--send takes files along, --fetch brings them back"
    assert_one_line(result.stderr, "lbrun", "h2", "is not shared with h1", remedy)
    job = inside(lab, "h1", "lbrun -d -H h2 touch ran", check=True).stdout.strip()
    assert lab.run("h1", "lbctl", "wait", job).returncode == 1
    assert lab.lbctl_json("h1", "job", job)["reason"].endswith(f"with h1; {remedy}")


def test_wait_does_not_end_before_the_outputs_have_come(lab):
    """It ended with 0 at once, and without them."""
    script = "lbrun -d -H h2 --fetch out sh -c 'sleep 3; echo made >out'"
    job = inside(lab, "h3", script, check=True).stdout.strip()
    lab.cut("h2", "h3")
    try:
        lab.wait_until(lambda: lab.lbctl_json("h3", "job", job)["state"] == "done", "it ends", 60)
        late = inside(lab, "h3", f"lbctl wait --timeout 1s {job}")
    finally:
        lab.heal()
    assert late.returncode == 2, late.stderr
    result = inside(lab, "h3", f"lbctl wait {job} && cat out", timeout=120)
    assert (result.returncode, result.stdout) == (0, "made\n"), result.stderr


def test_a_missing_directory_is_named(lab):
    result = inside(lab, "h1", "mkdir -p only/here && cd only/here && lbrun -H h2 true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "h2", "only/here", "No such file or directory")


def test_names_suffice_if_the_caller_names_host_and_directory(lab):
    result = inside(lab, "h1", f"lbrun -H h2 -C {lab.private} cat whose")
    assert (result.stdout, result.stderr) == ("h2\n", "")
    result = inside(lab, "h1", "lbrun -H h2 -C / pwd")
    assert (result.stdout, result.stderr) == ("/\n", "")


@pytest.mark.parametrize("option", ["-C sub", "-C ./sub/../sub"])
def test_a_relative_directory_is_still_compared(lab, option):
    for host in lab.hosts:
        inside(lab, host, "mkdir -p sub", check=True)
    result = inside(lab, "h1", f"lbrun -H h2 {option} true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "h2", "is not shared with h1")


def test_no_host_is_sent_a_command_in_a_directory_it_does_not_share(lab):
    result = inside(lab, "h1", f"lbrun --remote -C {lab.private} true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", str(lab.private))


def test_a_command_stays_quietly_and_its_directory_is_not_checked_each_time(lab):
    inside(lab, "h1", "mkdir -p deep/down", check=True)
    lab.run("h1", "lbctl", "drain", "h1", check=True)  # so that it would rather leave
    try:
        for place in (".", ".", "deep/down"):
            result = inside(lab, "h1", f"cd {place}; lbrun sh -c 'echo $LBD_HOST'")
            assert (result.stdout, result.stderr) == ("h1\n", "")
        result = inside(lab, "h1", "lbrun -v true")
        assert "is not shared with h2, h3" in result.stderr
        result = lab.run("h1", "lbrun", "sh", "-c", "echo $LBD_HOST", cwd="/")
        assert result.stdout in ("h2\n", "h3\n")
    finally:
        lab.run("h1", "lbctl", "undrain", "h1", check=True)


def test_one_host_may_share_a_directory_that_another_does_not(lab, tmp_path):
    """h3 mounts what h1 has; h2 does not."""
    shared = tmp_path / "shared"
    shared.mkdir()
    script = f"mkdir -p {lab.private}/both && mount --bind {shared} {lab.private}/both"
    for host in ("h1", "h3"):
        lab.run(host, "sh", "-c", script, check=True)
    try:
        result = inside(lab, "h1", "cd both && lbrun --remote sh -c 'echo $LBD_HOST > made'")
        assert (result.returncode, result.stderr) == (0, "")
        assert (shared / "made").read_text() == "h3\n"
    finally:
        for host in ("h1", "h3"):
            lab.run(host, "umount", f"{lab.private}/both", check=True)


def test_a_directory_that_changes_all_the_time_is_no_false_alarm(lab, tmp_path):
    script = "while [ ! -e stop ]; do touch $1; rm $1; done"
    busy = [lab.popen(host, "sh", "-c", script, "sh", host, cwd=tmp_path) for host in lab.hosts]
    try:
        for _ in range(20):
            result = lab.run("h1", "lbrun", "-H", "h2", "true", cwd=tmp_path)
            assert (result.returncode, result.stderr) == (0, "")
    finally:
        (tmp_path / "stop").touch()
        for process in busy:
            process.wait(20)


def test_a_removed_directory_can_still_be_used_on_its_own_host(lab, tmp_path):
    script = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && lbrun $*"
    result = lab.run("h1", "sh", "-c", script, "sh", "true")
    assert (result.returncode, result.stderr) == (0, "")
    result = lab.run("h1", "sh", "-c", script, "sh", "-H", "h2", "true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "h2")


def test_a_lab_needs_its_own_files_shared(lab, tmp_path):
    result = lab.lab("up", "--isolate", "namespaces", "--private", "/", check=False)
    assert result.returncode != 0
    assert "is in it" in result.stderr
    result = lab.lab("up", "--private", tmp_path / "none", check=False)
    assert "not a directory" in result.stderr


# What explain prints


@pytest.mark.parametrize("words", [("lbrun", "--explain"), ("lbctl", "explain")])
def test_explain_says_why_each_host_is_not_a_candidate(lab, words):
    result = inside(lab, "h1", '"$@"', *words, "--json", "true")
    reply = json.loads(result.stdout)
    assert (reply["verdict"], reply["host"]) == ("here", "h1")
    whys = {row["name"]: row["why"] for row in reply["candidates"] if not row["willing"]}
    assert whys.keys() == {"h2", "h3"}
    assert all(str(lab.private) in why and "not shared" in why for why in whys.values())
    shown = inside(lab, "h1", '"$@"', *words, "true").stdout
    assert shown.count("not shared") == 2
    refused = inside(lab, "h1", '"$@"', *words, "--remote", "true")
    assert (refused.returncode, refused.stdout) == (125 if words[0] == "lbrun" else 1, "")
    assert_one_line(refused.stderr, words[0], "h2", "h3", "not shared")
    refused = inside(lab, "h1", '"$@"', *words, "-H", "h2", "true")
    assert_one_line(refused.stderr, words[0], "h2", "not shared")


def test_explain_looks_for_the_program_too(lab, tmp_path):
    tool = "printf '#!/bin/sh\\n' > tool && chmod 755 tool"
    for host in ("h1", "h3"):
        inside(lab, host, f"{tool}; mkdir -p bin; cp tool bin/only-some-have", check=True)
    path = f"{lab.environment('h1')['PATH']}:{lab.private}/bin"
    for command, status in ((f"{lab.private}/tool", 127), ("only-some-have", 127)):
        result = lab.run("h1", "lbctl", "explain", "--remote", "--json", command, cwd=tmp_path,
                         env={"PATH": path})  # fmt: skip
        reply = json.loads(result.stdout)
        assert reply["host"] == "h3"
        whys = {row["name"]: row["why"] for row in reply["candidates"]}
        why = "No such file or directory" if "/" in command else "not found"
        assert whys["h2"] == f"{command}: {why}"
        ran = lab.run("h1", "lbrun", "-H", "h2", command, cwd=tmp_path, env={"PATH": path})
        assert ran.returncode == status
    inside(lab, "h3", "chmod 644 tool", check=True)
    result = lab.run("h1", "lbrun", "--explain", "-H", "h3", f"{lab.private}/tool", cwd=tmp_path)
    assert "Permission denied" in result.stderr


def test_explain_without_an_lbm_knows_loads_only(lab):
    lab.kill("h1", "lbm")
    try:
        result = inside(lab, "h1", "lbctl explain true")
        assert (result.returncode, "not shared" in result.stdout) == (0, False)
    finally:
        lab.start("h1", "lbm")


def test_explain_leaves_nothing_behind(lab, tmp_path):
    before = lab.ask("h2", "lbm", "status")["slots"]["used"]
    for _ in range(20):
        lab.run("h1", "lbctl", "explain", "sleep", "1000", cwd=tmp_path, check=True)
    assert lab.ask("h2", "lbm", "status")["slots"]["used"] == before
    assert not [p for p in lab.jobs_alive() if "sleep" in str(p)]


def test_a_program_that_other_hosts_lack_stays_quietly(lab, tmp_path):
    inside(lab, "h1", "mkdir -p own && cp /bin/echo own/only-here", check=True)
    path = f"{lab.environment('h1')['PATH']}:{lab.private}/own"
    lab.run("h1", "lbctl", "drain", "h1", check=True)  # so that it would rather leave
    try:
        for _ in range(3):
            result = lab.run("h1", "lbrun", "only-here", "x", env={"PATH": path}, cwd=tmp_path)
            assert (result.stdout, result.stderr) == ("x\n", "")
        result = lab.run("h1", "lbrun", "-v", "only-here", env={"PATH": path}, cwd=tmp_path)
        assert "only-here is not found on h2, h3" in result.stderr
        result = lab.run("h1", "lbrun", "no-such-program", cwd=tmp_path)
        assert result.returncode == 127
        assert_one_line(result.stderr, "lbrun", "no-such-program")
    finally:
        lab.run("h1", "lbctl", "undrain", "h1", check=True)


def test_a_command_that_brings_its_files_may_go_anywhere(lab):
    inside(lab, "h1", "echo mine > input; cp /bin/cat tool", check=True)
    words = "--remote --send input --send tool --fetch output"
    result = inside(lab, "h1", f"lbrun {words} --explain --json ./tool input")
    assert json.loads(result.stdout)["host"] in ("h2", "h3"), result.stderr
    result = inside(lab, "h1", f"lbrun {words} sh -c './tool input > output'; cat output")
    assert (result.stdout, result.stderr) == ("mine\n", "")
    result = inside(lab, "h1", f"lbrun {words} --explain no-such-program")
    assert_one_line(result.stderr, "lbrun", "h2", "h3", "not found")
