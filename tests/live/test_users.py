"""Who may run what as whom, and who sees and touches whose jobs."""

import contextlib
import json
import os
import pwd
import shutil
import signal

import pytest

from lbd.local.json_socket import Refusal
from tests.live.cluster import FAST, Lab, has_front
from tests.live.privileged import opened

pytestmark = pytest.mark.root

ANN, BOB, SYSTEM = "games", "nobody", "daemon"  # existing accounts that play these parts
SETTINGS = (*FAST, f'users.allow=["{ANN}", "{BOB}"]', f'admin.users=["{BOB}"]')


def as_user(name):
    """A command prefix. The compiled front needs nothing that the source tree may hide from
    them."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not has_front():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "needs root, setpriv, compiled front"
        )
    return ("setpriv", "--reuid", name, "--regid", str(pwd.getpwnam(name).pw_gid), "--init-groups",
            "--no-new-privs", "env", "-C", "/")  # fmt: skip


@pytest.fixture(scope="module")
def users_lab():
    lab = Lab.up(2, settings=SETTINGS)
    lab.root.chmod(0o755)  # as /run/lbd
    yield lab
    lab.down()


def lbrun(lab, user, *command):
    return lab.run("h1", *as_user(user), "lbrun", "-H", "h2", *command)


@contextlib.contextmanager
def running(lab, user, *command):
    """A command of that user's on h2, running."""
    process = lab.popen("h1", *as_user(user), "lbrun", "-H", "h2", "--name", user, *command)
    try:
        yield lab.wait_until(lambda: job_named(lab, user), f"a job of {user} runs"), process
    finally:
        process.kill()
        process.wait()


def job_named(lab, name):
    found = lab.ask("h1", "lbm", "jobs")["jobs"]
    return next((job["id"] for job in found if job["name"] == name and job["started"]), None)


def test_users_run_as_themselves_with_all_their_groups(users_lab):
    result = lbrun(users_lab, ANN, "id")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == users_lab.run("h1", *as_user(ANN), "id").stdout


def test_system_accounts_are_refused_and_the_rule_is_named(users_lab):
    result = lbrun(users_lab, SYSTEM, "id")
    assert (result.returncode, result.stdout) == (125, "")
    assert result.stderr.startswith("lbrun: h2: daemon is a system account here (users.min_uid")


def test_a_command_inherits_nothing_of_the_daemons(users_lab):
    """It has a session of its own, three descriptors and no capability."""
    script = (
        "ls /proc/self/fd | wc -l; sed -n 's/^Cap[^B].*:.//p' /proc/self/status | sort -u;"
        "cut -d' ' -f6 /proc/$$/stat; echo $$"
    )
    count, capabilities, session, pid = lbrun(users_lab, ANN, "sh", "-c", script).stdout.split()
    assert (count, capabilities) == ("4", "0" * 16)  # ls has opened the directory
    assert session == pid


def test_users_see_their_own_jobs_and_administrators_all(users_lab):
    lab = users_lab
    with (
        running(lab, ANN, "sleep", "60") as (anns, _),
        running(lab, BOB, "sleep", "60") as (bobs, _),
    ):
        assert {job["id"] for job in asked_by(lab, ANN, "jobs")["jobs"]} == {anns}
        assert {job["id"] for job in asked_by(lab, BOB, "jobs", host="h2")["jobs"]} == {anns, bobs}
        assert {job["id"] for job in lab.ask("h2", "lbm", "jobs")["jobs"]} == {anns, bobs}


def test_users_see_figures_of_their_own_jobs_and_administrators_of_all(users_lab):
    lab = users_lab
    for user in (ANN, ANN, BOB):
        lbrun(lab, user, "true")
    anns, bobs = (
        asked_by(lab, user, "stats", host="h1", of="h1", since=0.0) for user in (ANN, BOB)
    )
    assert [(row[0], row[1]) for row in anns["by_user"]] == [(ANN, anns["all"][1])]
    assert anns["user"] == ANN
    assert {ANN, BOB} <= {row[0] for row in bobs["by_user"]}
    assert (bobs["user"], bobs["all"][1] > anns["all"][1]) == (None, True)
    with pytest.raises(Refusal, match=r"admin\.users"):
        asked_by(lab, ANN, "history", of="h1", since=0.0, after=0)
    assert asked_by(lab, BOB, "history", of="h1", since=0.0, after=0)["jobs"]


def test_users_touch_their_own_jobs_and_administrators_all(users_lab):
    lab = users_lab
    with running(lab, BOB, "sleep", "60") as (bobs, process):
        with pytest.raises(Refusal, match=r"no job .* of yours"):
            asked_by(lab, ANN, "signal", job=bobs, number=signal.SIGKILL)
        assert process.poll() is None
    with running(lab, ANN, "sleep", "60") as (anns, process):
        asked_by(lab, BOB, "signal", job=anns, number=signal.SIGTERM)
        assert process.wait(30) == -signal.SIGTERM


def test_administrators_steer_and_others_do_not(users_lab):
    with pytest.raises(Refusal, match=r"admin\.users"):
        asked_by(users_lab, ANN, "param", daemon="lim", name="min_gain", value=0.2)
    reply = asked_by(users_lab, BOB, "param", daemon="lim", name="min_gain", value=0.1)
    assert reply["value"] == 0.1
    with pytest.raises(Refusal, match="daemon's own user"):
        asked_by(users_lab, BOB, "lbm", daemon="lim")


def asked_by(lab, user, op, daemon="lbm", host="h1", **fields):
    """The answer of a socket to a process of that user's."""
    entry, (reader, writer) = pwd.getpwnam(user), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.initgroups(user, entry.pw_gid)
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
            try:
                answer = lab.ask(host, daemon, op, **fields)
            except Refusal as refusal:
                answer = {"refused": str(refusal), "code": refusal.code}
            os.write(writer, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = json.loads(file.read())
    os.waitpid(pid, 0)
    if "refused" in answer:
        raise Refusal(answer["refused"], answer["code"])
    return answer


def test_what_a_user_moves_into_a_workdir_is_removed_with_that_users_rights_alone(users_lab):
    """The LBM here is root. Bob's files are in a directory of Ann's, who may move it."""
    home = users_lab.root / "anns"
    shared, of_bob = home / "shared", home / "shared/bobs"
    of_bob.mkdir(parents=True)
    (home / "sent").write_text("")
    (shared / "anns-own").write_text("")
    (of_bob / "precious").write_text("")
    for path in (home, *home.rglob("*")):
        shutil.chown(path, ANN)
    for path in (of_bob, of_bob / "precious"):
        shutil.chown(path, BOB)
    script = f"cd {home} && exec lbrun -H h2 --send sent mv {home}/shared moved"
    try:
        done = users_lab.run("h1", *opened(), *as_user(ANN), "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        users_lab.wait_until(
            lambda: not list(users_lab.root.rglob("anns-own")), "what is Ann's is removed"
        )
        assert len(list(users_lab.root.rglob("precious"))) == 1
    finally:
        shutil.rmtree(home)
