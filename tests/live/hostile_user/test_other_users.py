"""A local user who means harm, on hosts as an administrator would set them up."""

import contextlib
import os
import pwd
import socket
import subprocess
import time
from pathlib import Path

import pytest

from lbd.keeper import protocol as keeper
from lbd.keeper.spawn_order import Order
from lbd.lbm.keeper_link import pack_order
from lbd.local import frames
from lbd.process.self_start import command
from tests.live.cluster import client_environment, wait_until
from tests.live.privileged import ANN, CONFIG, LBD, MALLORY, opened

pytestmark = pytest.mark.root

SECRET = "the-secret-of-ann"


@contextlib.contextmanager
def under_way(two, user, script, prefix=(), stdin=subprocess.DEVNULL):
    """A shell command of that user's on h1, and its process."""
    who = ("--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--init-groups")
    env = client_environment(LBD_CONFIG=str(two.root / "h1.toml"))
    process = subprocess.Popen(
        [*prefix, "setpriv", *who, "sh", "-c", f"cd / && {script}"], env=env,
        stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def pids_of(text):
    """The processes that have this text in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if text.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
    return found


@pytest.fixture
def anns(two):
    """(lbrun, every process of hers): a command of Ann's on h2."""
    script = f"exec lbrun -H h2 sh -c 'while :; do echo {SECRET}; sleep 0.2; done'"
    with under_way(two, ANN, script) as process:
        wait_until(lambda: len(pids_of(SECRET)) >= 2, "it runs", see=two.logs)
        yield process, pids_of(SECRET)


def test_reads_nobody_elses_output(two, anns):
    _, pids = anns
    daemons = [two.ask(host, "lbm", "status")["keeper"] for host in ("h1", "h2")]
    daemons += [int((two.root / f"{h}/run/lbm.pid").read_text()) for h in ("h1", "h2")]
    tries = " ".join(f"/proc/{pid}/fd/* /proc/{pid}/environ" for pid in (*pids, *daemons))
    result = two.run(MALLORY, f"cd / && timeout 2 cat {tries} 2>&1")
    assert SECRET not in result.stdout.replace(tries, "")
    assert "Permission denied" in result.stdout
    jobs = two.run(MALLORY, "cd / && lbctl jobs --all --json").stdout
    assert SECRET not in jobs


def test_finds_no_file_of_the_daemons_but_who_they_are(two):
    result = two.run(MALLORY, f"find {two.root}/h1 {two.root}/h2 -type f -readable -size +0")
    names = {Path(path).name for path in result.stdout.split()}
    daemons = {"lim.pid", "lbm.pid", "up.pid", "dispatcher.pid"}
    assert names <= daemons | {"speed.json", "next_job", "log.level"}
    result = two.run(MALLORY, f"cat {two.root}/key {two.root}/h1/state/learnt.json")
    assert result.stdout == ""


def test_kills_nobody_elses_command(two, anns):
    process, pids = anns
    status = two.ask("h2", "lbm", "status")
    targets = (*pids, status["keeper"], int((two.root / "h2/run/lbm.pid").read_text()))
    result = two.run(MALLORY, "; ".join(f"kill -9 {pid}" for pid in targets))
    assert result.stderr.count("not permitted") == len(targets)
    (job,) = [job["id"] for job in two.ask("h1", "lbm", "jobs")["jobs"]]
    result = two.run(MALLORY, f"cd / && lbctl kill -s KILL {job}")
    assert result.returncode != 0
    time.sleep(0.5)
    assert process.poll() is None


def test_cannot_pose_as_another(two, tmp_path):
    """Neither to the daemons nor as a daemon."""
    for sock in ("keeper.sock", "up.notify"):
        path = f"{two.root}/h1/run/{sock}"
        script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r})"
        result = two.run(MALLORY, f'/usr/bin/env python3 -c "{script}"')
        assert result.returncode != 0
    for words in ("drain h2", "algorithm LOWEST", "reload"):
        result = two.run(MALLORY, f"cd / && lbctl {words}")
        assert (result.returncode, result.stdout) == (1, "")
        assert "administrators" in result.stderr
    result = two.run(MALLORY, f"cd / && USER={ANN} LOGNAME={ANN} HOME=/root lbrun -H h2 id -un")
    assert result.stdout.strip() == MALLORY
    fake = Path("/tmp") / f"lbd-t-fake-{os.getpid()}"
    config = tmp_path / "lbd.toml"
    two.run(MALLORY, f"mkdir {fake}")
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{fake}/lbm.sock")
            os.chmod(f"{fake}/lbm.sock", 0o777)
            listener.listen()
            config.write_text(f'[host]\nruntime_dir = "{fake}"\n')
            config.chmod(0o644)
            shared = Path(f"{fake}.toml")
            shared.write_text(config.read_text())
            result = two.run(ANN, f"cd / && LBD_CONFIG={shared} lbrun -H h2 id")
            assert result.returncode == 125
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()
    finally:
        shared.unlink()
        (fake / "lbm.sock").unlink()
        fake.rmdir()


def test_root_elsewhere_is_nobody_here(two):
    with under_way(two, "root", "exec lbrun -H h2 -C / id") as process:
        said = process.stdout.read()
    assert "users.allow_root" in said
    assert "uid=" not in said


USERS = {
    "root itself": (0, 0, 0),
    "whoever the keeper is": (),
    "a system account": (8, 8),
    "nobody's number": (54321, 54321),
    "a group that is not theirs": (pwd.getpwnam(ANN).pw_uid, pwd.getpwnam(ANN).pw_gid, 0),
    "root's group": (pwd.getpwnam(ANN).pw_uid, 0),
}


@pytest.fixture
def lone_keeper(short_dir):
    """`lbd keeper` as root, and a socket connected to it as the LBM's user would connect."""
    short_dir.chmod(0o755)
    run = short_dir / "h1/run"
    run.mkdir(parents=True)
    config = short_dir / "lbd.toml"
    config.write_text(
        CONFIG.format(name="h1", root=short_dir, lbd=LBD, ann=ANN, mallory=MALLORY, hosts="")
    )
    process = subprocess.Popen(
        [*opened(), *command("keeper", "--config", str(config))], env=client_environment(),
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until((run / "keeper.sock").exists, "it listens", 30)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(30)
            os.seteuid(pwd.getpwnam(LBD).pw_uid)
            try:
                sock.connect(str(run / "keeper.sock"))
            finally:
                os.seteuid(0)
            yield sock
            sock.sendall(frames.pack(keeper.QUIT))
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_the_keeper_runs_nothing_as_root_for_an_lbm_that_was_taken_over(
    lone_keeper, user, tmp_path
):
    mark = tmp_path / "ran"
    order = Order(job="x", argv=[b"touch", bytes(mark)], user=user, closed_fds=7,
                  environment={b"PATH": b"/usr/bin:/bin"})  # fmt: skip
    lone_keeper.sendall(frames.pack(keeper.SPAWN, pack_order(order)))
    split = frames.Splitter(1 << 20)
    answers = []
    while not any(tag == keeper.FAILED for tag, _ in answers):
        answers += split.feed(lone_keeper.recv(1 << 16))
        assert not any(tag == keeper.BEGUN for tag, _ in answers)
    given = dict(frames.fields(next(body for tag, body in answers if tag == keeper.FAILED)))
    assert given[keeper.PHASE] == b"user"
    assert not mark.exists()


def test_fills_no_disk_of_the_daemons(two):
    places = " ".join(f"{two.root}/{h}/{d}" for h in ("h1", "h2") for d in ("run", "state"))
    result = two.run(MALLORY, f"for d in {places}; do touch $d/x && echo made; done")
    assert result.stdout == ""
    names = ", ".join(f'"{"x" * 200}{n}"' for n in range(4000))
    home = Path("/tmp") / f"lbd-t-mallory-{os.getpid()}"
    (home / "lbd").mkdir(parents=True)
    (home / "lbd/lbd.toml").write_text(f"[eligibility]\nalways = [{names}]\n")
    os.chmod(home, 0o755)
    two.run(MALLORY, f"cd / && unset LBD_CONFIG; XDG_CONFIG_HOME={home} lbctl eligible true")
    for n in range(50):
        two.ask("h1", "lbm", "eligible", command=[f"{'y' * 4000}{n}"])
    time.sleep(0.1)
    sizes = [
        path.stat().st_size for path in Path(two.root, "h1/state").rglob("*") if path.is_file()
    ]
    assert sum(sizes) < 4 << 20
    (home / "lbd/lbd.toml").unlink()
    (home / "lbd").rmdir()
    home.rmdir()


def test_starves_nobody_of_slots(two):
    """All slots are taken and many more commands wait: others still get slots, by name and
    without."""
    total = two.ask("h2", "lbm", "status")["slots"]["total"]
    many = " ".join(["lbrun -H h2 sleep 60 &"] * (total + 6))
    with under_way(two, MALLORY, f"{{ {many} wait; }}"):
        wait_until(
            lambda: two.ask("h2", "lbm", "status")["slots"]["used"] >= total, "all are taken"
        )
        assert two.run(ANN, "cd / && lbrun -H h2 echo mine").stdout == "mine\n"
        wait_until(
            lambda: two.run(ANN, "cd / && lbrun --remote echo too").stdout == "too\n",
            "h1 knows that there is room for others",
            see=lambda: two.ask("h1", "lim", "status")["hosts"],
        )
        result = two.run(MALLORY, "cd / && timeout 2 lbrun --remote echo more")
        assert result.returncode in (124, 125)
        assert result.stdout == ""


HOLD = """
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = [socket.socket(socket.AF_UNIX) for _ in range(3000)]
for sock in held:
    sock.connect("{path}")
print("held", flush=True)
time.sleep(60)
"""


def test_starves_nobody_of_connections(two):
    program = two.root / "hold.py"
    program.write_text(HOLD.format(path=two.root / "h1/run/lbm.sock"))
    program.chmod(0o644)
    with under_way(two, MALLORY, f"exec /usr/bin/env -i python3 {program}") as process:
        assert process.stdout.readline() == "held\n"
        # On a busy machine the LBM takes more than lbrun's three seconds to go through them.
        wait_until(
            lambda: two.run(ANN, "cd / && lbrun -H h2 echo mine").stdout == "mine\n",
            "Ann's command runs while they are held",
            timeout_s=50,
        )
