"""lbrun --send and --fetch: files are sent along, and come back whole or not at all."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from contract import assert_one_line, kill_tree

from tests.live.cluster import FAST, Lab, wait_until

BIG = 48 << 20


LAB = partial(Lab.up, 3, settings=(*FAST, "lbm.kill_grace_s=0.2", f"stage.max_bytes={BIG * 2}"))


def workdirs(lab, host):
    """The workdirs left on a host."""
    root = lab.paths(host).state / "stage" / host
    return [path.name for path in root.iterdir()] if root.exists() else []


def assert_no_workdir(lab):
    lab.wait_until(
        lambda: not any(workdirs(lab, host) for host in lab.hosts),
        "no stage is left", 20, lambda: {host: workdirs(lab, host) for host in lab.hosts},
    )  # fmt: skip


def lbrun(lab, cwd, *words, **options):
    return lab.run("h1", "lbrun", *words, cwd=cwd, **options)


def listing(root):
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink()
        else path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }  # fmt: skip


def test_a_command_runs_among_the_files_that_were_sent(lab, work):
    result = lbrun(lab, work, "-H", "h2", "--send", "src", "--send=tool", "sh", "-c",
                   "pwd; find . | sort; cat src/link; ./tool; stat -c %Y src/a; echo err >&2; cat",
                   input="typed\n")  # fmt: skip
    where, *lines = result.stdout.splitlines()
    assert where.startswith(str(lab.paths("h2").state / "stage"))
    assert lines == [".", "./src", "./src/a", "./src/link", "./src/sub", "./src/sub/b", "./tool",
                     "b", "tool", "1234567890", "typed"]  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "err\n")
    assert_no_workdir(lab)


def test_outputs_come_back_and_nothing_else(lab, work):
    before = listing(work)
    script = "mkdir -p out/deep; cp src/a out/deep/a; ln -s a out/deep/l; chmod 640 out/deep/a; \
              echo x > build/x.o; echo more > more; echo changed > src/a; touch -d @99 out/deep/a"
    result = lbrun(lab, work, "-H", "h2", "--send", "src", "--fetch", "out", "--fetch",
                   "build/x.o", "sh", "-c", script)  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert listing(work) == {
        **before, "out": None, "out/deep": None, "out/deep/a": b"a\n", "out/deep/l": "a",
        "build": None, "build/x.o": b"x\n",
    }  # fmt: skip
    made = (work / "out/deep/a").stat()
    assert (made.st_mode & 0o777, made.st_mtime) == (0o640, 99)
    assert_no_workdir(lab)


@pytest.mark.parametrize("options", [(), ("--local",), ("-H", "h1")])
def test_a_command_that_runs_here_has_no_files_copied(lab, work, options):
    result = lbrun(lab, work, *options, "--send", "src", "--fetch", "out", "sh", "-c",
                   "pwd; cat unlisted; echo made > out")  # fmt: skip
    assert result.stdout == f"{work}\nmine\n"
    assert (work / "out").read_text() == "made\n"


def test_a_command_with_files_also_finds_a_host_by_itself(lab, work):
    result = lbrun(lab, work, "--remote", "--send", "src", "cat", "src/a")
    assert (result.returncode, result.stdout, result.stderr) == (0, "a\n", "")


def test_paths_are_relative_to_the_directory_given(lab, work):
    result = lbrun(lab, work.parent, "-H", "h2", "-C", "work", "--send", "./src/../src/sub",
                   "--fetch", "new", "sh", "-c", "cp src/sub/b new")  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert (work / "new").read_text() == "b\n"


REFUSED = [
    (("--send", "../work"), "--send ../work"),
    (("--fetch", "."), "--fetch ."),
    (("--send", "none"), "No such file"),
    (("--fetch", "src"), "replaced as a whole"),
    (("--send", "src/sub", "--fetch", "src"), "replaced as a whole"),
]


@pytest.mark.parametrize(("options", "part"), REFUSED)
def test_options_that_are_refused_before_anything_runs(lab, work, options, part):
    before = listing(work)
    result = lbrun(lab, work, "-H", "h2", *options, "touch", str(work / "ran"))
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", part)
    assert listing(work) == before


def test_a_directory_that_was_sent_comes_back_as_a_whole(lab, work):
    script = "rm src/a; echo new > src/sub/b; echo c > src/c; chmod 555 src/sub"
    for _ in range(2):
        result = lbrun(lab, work, "-H", "h2", "--send", "src", "--fetch", "src", "sh", "-c",
                       script.replace("rm", "rm -f"))  # fmt: skip
        assert (result.returncode, result.stderr) == (0, "")
        assert listing(work / "src") == {
            "c": b"c\n", "link": "sub/b", "sub": None, "sub/b": b"new\n"
        }  # fmt: skip
    assert sorted(os.listdir(work)) == ["src", "tool", "unlisted"]


STATUSES = [("exit 7", 7), ("kill -9 $$", 137), ("exit 125", 125)]


def swapping(work):
    """The words of a command during which another directory gets the name of one that was sent."""
    (work / "private").mkdir()
    (work / "private/mine").touch()
    work.chmod(0o777)
    script = f"mv {work}/src {work}/src.orig && mv {work}/private {work}/src && touch src/new"
    return "--send", "src", "--fetch", "src", "sh", "-c", script


def test_another_directory_that_has_got_its_name_is_put_aside(lab, work):
    """Another user may have renamed it, in a directory where both may write."""
    result = lbrun(lab, work, "-H", "h2", *swapping(work))
    (aside,) = work.glob("src.lbd-old-*")
    line = f"lbrun: --fetch src is not what it was; that is {aside.name} now\n"
    assert (result.returncode, result.stderr) == (0, line)
    assert (aside / "mine").exists()
    assert (work / "src/new").exists()


def test_nothing_comes_back_through_a_link_that_others_may_have_put_there(lab, work):
    (work / "w").mkdir()
    (work / "elsewhere").mkdir()
    work.chmod(0o777)
    script = f"mv {work}/w {work}/w.orig && ln -s elsewhere {work}/w && echo new > w/report"
    result = lbrun(lab, work, "-H", "h2", "--fetch", "w/report", "sh", "-c", script)
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "w/report: w is a symbolic link in a directory where")
    assert not list((work / "elsewhere").iterdir())


@pytest.mark.parametrize(("end", "status"), STATUSES)
def test_the_output_of_a_failed_command_comes_back_too(lab, work, end, status):
    result = lbrun(lab, work, "-H", "h2", "--fetch", "log", "--fetch", "result", "sh", "-c",
                   f"echo failed > log; {end}")  # fmt: skip
    assert result.returncode in (status, 128 - status)
    assert (work / "log").read_text() == "failed\n"
    assert not (work / "result").exists()


def test_a_missing_output_of_a_successful_command_is_an_error(lab, work):
    (work / "old").write_text("old\n")
    listed = "--fetch", "none", "--fetch", "old"
    result = lbrun(lab, work, "-H", "h2", *listed, "sh", "-c", "echo new > old")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "--fetch none", "did not create it", "exited with 0")
    assert (work / "old").read_text() == "old\n"  # all or nothing
    assert sorted(os.listdir(work)) == ["old", "src", "tool", "unlisted"]
    stays = lbrun(lab, work, "--local", *listed, "--status-file", "end", "true")
    assert (stays.returncode, stays.stderr) == (125, result.stderr)  # wherever it ran
    assert json.loads((work / "end").read_text())["exit_status"] == 125
    stays = lbrun(lab, work, "--local", *listed, "sh", "-c", "exit 3")
    assert (stays.returncode, stays.stderr) == (3, "")
    assert lbrun(lab, work, "--local", "--fetch", "none", "touch", "none").returncode == 0


HOSTILE = [
    ("mkdir out; ln -s ../../x out/l", "outside the directory"),
    ("mkfifo out", "not a file"),
    ("mkdir out; cd out; for i in $(seq 210); do mkdir d; cd d; done", "deeper than"),
]


@pytest.mark.parametrize(("script", "part"), HOSTILE)
def test_files_that_do_not_come_back(lab, work, script, part):
    before = listing(work)
    result = lbrun(lab, work, "-H", "h2", "--fetch", "out", "sh", "-c", script)
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "--fetch", part, "exited with 0")
    assert listing(work) == before
    assert_no_workdir(lab)


def test_a_listed_path_that_leads_through_a_link_there_is_not_followed(lab, work):
    result = lbrun(lab, work, "-H", "h2", "--fetch", "etc/passwd", "sh", "-c",
                   "rmdir etc; ln -s /etc etc")  # fmt: skip
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "etc/passwd")
    assert not (work / "etc/passwd").exists()


def test_sizes_are_bounded_both_ways(lab, work):
    (work / "huge").touch()
    os.truncate(work / "huge", BIG * 2 + 1)
    result = lbrun(lab, work, "-H", "h2", "--send", "huge", "true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "--send", "stage.max_bytes", "nothing ran")
    result = lbrun(lab, work, "-H", "h2", "--fetch", "out", "truncate", "-s", str(BIG * 2 + 1),
                   "out")  # fmt: skip
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "--fetch", "stage.max_bytes", "exited with 0")
    assert not (work / "out").exists()
    assert_no_workdir(lab)


def test_memory_stays_bounded_and_no_byte_changes(lab, work):
    data = random.Random(5).randbytes(1 << 20) * (BIG >> 20)
    (work / "big").write_bytes(data)
    pids = lab.pids()
    lbrun(lab, work, "-H", "h2", "true")
    before = {host: psutil.Process(pids[host]["lbm"]).memory_info().rss for host in ("h1", "h2")}
    result = lbrun(lab, work, "-H", "h2", "--send", "big", "--fetch", "copy", "cp", "big", "copy")
    assert (result.returncode, result.stderr) == (0, "")
    assert (work / "copy").read_bytes() == data
    for host, rss in before.items():
        assert psutil.Process(pids[host]["lbm"]).memory_info().rss < rss + (40 << 20)


def test_the_callers_limits_hold_for_unpacking(lab, work):
    (work / "big").write_bytes(b"x" * 100_000)
    limit = ("bash", "-c", 'ulimit -f 50; exec "$@"', "bash")
    result = lab.run("h1", *limit, "lbrun", "-H", "h2", "--send", "big", "true", cwd=work)
    assert result.returncode == 125
    assert_no_workdir(lab)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_files_are_read_and_written_as_their_user(tmp_path_factory):
    lab = Lab.up(2)
    lab.root.chmod(0o755)
    work = Path(lab.root, "w")
    work.mkdir()
    os.chown(work, 65534, 65534)
    try:
        plain = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        capabilities = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
        identity = (*plain, *capabilities)  # to read where these programs are installed
        (work / "secret").write_text("root's")
        (work / "secret").chmod(0o600)
        (work / "mine").write_text("mine")
        script = "id -u; stat -c '%u %a' . mine; echo made > out"
        words = ("lbrun", "-H", "h2", "--send", "mine", "--fetch", "out", "sh", "-c", script)
        result = lab.run("h1", *identity, *words, cwd=work)
        assert (result.stderr, result.stdout) == ("", "65534\n65534 700\n65534 644\n")
        assert (work / "out").stat().st_uid == 65534
        if lab.run("h1", *plain, "lbrun", "--version").returncode == 0:
            result = lab.run(
                "h1", *plain, "lbrun", "-H", "h2", "--send", "secret", "true", cwd=work
            )
            assert result.returncode == 125
            assert "Permission denied" in result.stderr
        result = lab.run("h1", *identity, "lbrun", "-H", "h2", "--fetch", "x", "ln", "/etc/shadow",
                         "x", cwd=work)  # fmt: skip
        assert result.returncode != 0
    finally:
        subprocess.run(["rm", "-rf", work], check=True)
        lab.down()


def test_a_host_may_forbid_files(make_lab, work):
    lab = make_lab(2, settings=(*FAST, "stage.max_bytes=0"))
    result = lbrun(lab, work, "-H", "h2", "--send", "src", "true")
    assert result.returncode == 125
    assert_one_line(result.stderr, "lbrun", "stage.max_bytes")


# Anything may be killed


def test_an_interrupt_leaves_nothing(lab, work):
    for script in ("sleep 100", "trap '' INT; sleep 100"):
        paths = ("--send", "src", "--fetch", "out")
        job = lab.popen("h1", "lbrun", "-H", "h2", *paths, "sh", "-c", script, cwd=work,
                        stderr=subprocess.DEVNULL)  # fmt: skip
        lab.wait_until(lambda: workdirs(lab, "h2"), "it has a stage")
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        job.wait(20)
        assert_no_workdir(lab)
    assert "out" not in os.listdir(work)


def test_what_an_lbm_left_is_removed_at_its_next_start(lab, work):
    job = lab.popen("h1", "lbrun", "-H", "h2", "--send", "src", "sleep", "100", cwd=work,
                    stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        lab.wait_until(lambda: workdirs(lab, "h2"), "it has a stage")
        lab.kill("h2", "lbm")
        assert job.wait(20) == 125
        assert workdirs(lab, "h2")
    finally:
        lab.start("h2", "lbm")
        kill_tree(job.pid)
    assert_no_workdir(lab)
    usable(lab)


def usable(lab):
    lab.wait_until(
        lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "h2 is usable", 20
    )


VICTIMS = ("client", "child", "helper", "command", "lbm h1", "lbm h2", "keeper h2", "cut")


@pytest.mark.parametrize("seed", range(len(VICTIMS)))
def test_whatever_is_killed_no_file_is_half_fetched(lab, work, seed):
    """The destinations have their old or their new content, and nothing lies beside them."""
    rng = random.Random(seed)
    victim = VICTIMS[seed]
    delay_s = rng.random() * 1.2
    print(f"seed {seed}: {victim} after {delay_s:.3f} s")
    (work / "big").write_bytes(b"n" * (BIG // 2))
    (work / "copy").write_bytes(b"old")
    (work / "dir").mkdir()
    (work / "dir/one").write_bytes(b"old")
    names = sorted(os.listdir(work))
    script = "; ".join(f"cp big t && mv t {name}" for name in ("copy", "dir/one", "dir/two"))
    paths = ("--send", "big", "--send", "dir", "--fetch", "copy", "--fetch", "dir")
    job = lab.popen("h1", "lbrun", "-H", "h2", *paths, "sh", "-c", script, cwd=work,
                    stderr=subprocess.PIPE)  # fmt: skip
    try:
        time.sleep(delay_s)
        strike(lab, job, victim)
        _, said = job.communicate(timeout=40)
    finally:
        kill_tree(job.pid)
        recover(lab)
    new = (work / "big").read_bytes()
    assert (work / "copy").read_bytes() in (b"old", new)
    found = listing(work / "dir")
    as_left = [{"one": new}] if victim == "command" else []  # only the command was killed
    assert found in ({"one": b"old"}, {"one": new, "two": new}, *as_left), found.keys()
    wait_until(lambda: sorted(os.listdir(work)) == names, "nothing lies about", 20,
               lambda: os.listdir(work))  # fmt: skip
    if job.returncode == 0:
        assert (work / "copy").read_bytes() == found["one"] == new, said
    assert_no_workdir(lab)


def strike(lab, job, victim):
    if victim == "cut":
        lab.cut("h1", "h2")
    elif victim in ("lbm h1", "lbm h2", "keeper h2"):
        part, host = victim.split()
        lab.kill(host, part)
    elif victim == "client":
        job.kill()
    else:
        kill_one(lab, job, victim)


def kill_one(lab, job, victim):
    """Kills a packer or unpacker, its counterpart on the other host, or the command, if it
    exists."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if victim == "child":
            found = psutil.Process(job.pid).children()
        else:
            spares = victim == "helper"
            keeper = psutil.Process(lab.pids()["h2"]["keeper"])
            found = [p for p in keeper.children() if ("cp" in script_of(p)) != spares]
        for process in found:
            process.kill()


def script_of(process):
    return " ".join(process.cmdline())


def recover(lab):
    lab.heal()
    for host in ("h1", "h2"):
        if lab.pids()[host]["lbm"] is None:
            lab.start(host, "lbm")
    usable(lab)
