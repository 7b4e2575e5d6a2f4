"""What `lbctl logs` shows of the files that jobs write to with `-o` and `--error`."""

import base64
import os
import pwd
import resource
import signal
import tempfile
import time
from contextlib import ExitStack

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import logs, own_files
from tests.live.hung_files import HungFiles
from tests.unit.cli.canned import JOB

OURSELVES = pwd.getpwuid(os.geteuid()).pw_name


def with_files(daemon, directory, *jobs, printed=b"", running=False, warning=""):
    """Starts a daemon that has stored `printed` for each of these jobs with output files."""
    found = {name: JOB | {"id": name, "state": "failed", "exit_status": 1, "started": time.time(),
                          "directory": str(directory), "host": "h2", "user": OURSELVES, **fields}
             for name, fields in jobs}  # fmt: skip
    data = [base64.b64encode(printed).decode()] if printed else []

    def asked(question):
        names = [name for name in found if name in question["ids"]] or list(found)
        return {"ok": True, "jobs": [found[name] for name in names]}

    def logs(question):
        said = {"more": True, "state": "running"} if running else {}
        left = [] if question["at"][0] else data
        return {"ok": True, "attempt": 1, "at": [1, 0], "data": left, "warning": warning, **said}

    daemon("lbm", **{"queue.logs": logs, "queue.jobs": asked})


def test_the_files_of_failed_tasks_are_shown_where_they_can_be_read(daemon, capfdbinary, tmp_path):
    tasks = [(f"5_{index}", {"array_id": 5, "array_index": index, "output": "run.%a"})
             for index in (1, 2, 3)]  # fmt: skip
    (tmp_path / "run.1").write_bytes(b"no such key\n")
    (tmp_path / "run.3").write_bytes(b"\xffno\n")
    with_files(daemon, tmp_path, *tasks)
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    out, err = capfdbinary.readouterr()
    heads = [f"==> 5_{index}: failed on h2, exit 1 <==\n".encode() for index in (1, 2, 3)]
    assert out == heads[0] + b"no such key\n" + heads[1] + heads[2] + b"\xffno\n"
    missing = f"{tmp_path}/run.2, which cannot be read here; it ran on h2"
    assert err.decode() == f"lbctl: job 5_2 wrote to {missing}\n"


def test_what_tasks_wrote_to_one_file_is_shown_once(daemon, capfdbinary, tmp_path):
    tasks = [(f"5_{index}", {"array_id": 5, "array_index": index, "output": "all"})
             for index in (1, 2)]  # fmt: skip
    (tmp_path / "all").write_bytes(b"both\n")
    with_files(daemon, tmp_path, *tasks)
    assert lbctl.main(["logs", "--failed", "5"]) == 0
    assert capfdbinary.readouterr().out.count(b"both\n") == 1


def test_a_file_for_errors_alone_is_shown_on_stderr(daemon, capfdbinary, tmp_path):
    (tmp_path / "err.5").write_bytes(b"broken\n")
    with_files(daemon, tmp_path, ("5", {"error": "err.%j"}), printed=b"result\n")
    assert lbctl.main(["logs", "5"]) == 0
    assert capfdbinary.readouterr() == (b"result\n", b"broken\n")


def test_a_file_is_shown_although_the_disk_of_stored_outputs_was_full(
    daemon, capfdbinary, tmp_path
):
    """It is on another disk; only the warning was shown."""
    (tmp_path / "out").write_bytes(b"result\n")
    with_files(daemon, tmp_path, ("5", {"output": "out"}), warning="the disk of h2 was full")
    assert lbctl.main(["logs", "5"]) == 0
    assert capfdbinary.readouterr() == (b"result\n", b"lbctl: the disk of h2 was full\n")


@pytest.mark.parametrize(
    "names", [{"output": "out"}, {"error": "err"}, {"output": "out", "error": "err"}]
)
def test_a_job_that_printed_nothing_to_its_files_is_said_to_have(
    daemon, capfdbinary, tmp_path, names
):
    """It only said where it wrote to, as of a file that cannot be read here."""
    for name in names.values():
        (tmp_path / name).touch()
    with_files(daemon, tmp_path, ("5", names))
    assert lbctl.main(["logs", "5"]) == 0
    out, err = capfdbinary.readouterr()
    empty = " and ".join(f"{tmp_path}/{name}" for name in names.values())
    said = "job 5 failed (exit 1): lowest; it printed nothing"
    said = f"{said} ({empty} {'are' if len(names) > 1 else 'is'} empty)"
    assert (out, err.decode()) == (b"", f"lbctl: {said}\n")


def test_a_job_that_runs_is_not_said_to_have_printed_nothing(daemon, capfdbinary, tmp_path):
    (tmp_path / "out").touch()
    with_files(daemon, tmp_path, ("5", {"output": "out", "state": "running"}))
    assert lbctl.main(["logs", "5"]) == 0
    said = f"job 5 writes to {tmp_path}/out; follow it with: tail -f {tmp_path}/out"
    assert capfdbinary.readouterr().err.decode() == f"lbctl: {said}\n"


@pytest.mark.parametrize("kind", ["pipe", "directory", "older", "nowhere", "of its own"])
def test_what_is_not_the_output_file_of_the_job_is_not_shown(daemon, capfdbinary, tmp_path, kind):
    path = tmp_path / "out"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind != "nowhere":
        path.write_bytes(b"of another job\n")
        os.utime(path, (1.0, 1.0))
    with_files(daemon, "" if kind == "of its own" else tmp_path, ("5", {"output": "out"}))
    assert lbctl.main(["logs", "5"]) == 0
    out, err = capfdbinary.readouterr()
    own = "out, in a directory of its own on h2"
    said = own if kind == "of its own" else f"{path}"
    if kind == "nowhere":
        said += ", which cannot be read here; it ran on h2"
    assert (out, err.decode()) == (b"", f"lbctl: job 5 wrote to {said}\n")


def follow(daemon, monkeypatch, job, *steps):
    """Runs `lbctl logs -f`; before each answer on the running job, the next step is taken."""
    monkeypatch.setattr(own_files, "LOOK_S", 0.0)
    monkeypatch.setattr(logs, "FOLLOW_S", 0.0)
    job = JOB | {"id": "5", "state": "running", "user": OURSELVES, "host": "h2"} | job
    job |= {"started": time.time() - 60}
    left = iter(steps)

    def piece(_):
        if (step := next(left, None)) is None:
            job["state"] = "done"
            return {"ok": True, "attempt": 2, "at": [0, 0], "data": [], "state": "done"}
        attempt = step() or 1
        return {"ok": True, "attempt": attempt, "at": [0, 0], "data": [], "more": True,
                "state": "running"}  # fmt: skip

    def asked(question):
        files = () if question.get("attempts") else ("output", "error", "directory")
        found = {name: value for name, value in job.items() if name not in files}
        return {"ok": True, "jobs": [found]}

    daemon("lbm", **{"queue.logs": piece, "queue.jobs": asked})
    assert lbctl.main(["logs", "-f", "5"]) == 0
    return list(left)


def test_a_file_is_followed_until_its_job_ends(daemon, monkeypatch, capfdbinary, tmp_path):
    """The second attempt overwrites it, with more than the first one had written."""
    path = tmp_path / "out.5"

    def add(data, attempt=1, mode="ab"):
        with path.open(mode) as file:
            file.write(data)
        return attempt

    follow(
        daemon,
        monkeypatch,
        {"output": "out.%j", "error": "err", "directory": str(tmp_path)},
        lambda: [add(b"one\n"), (tmp_path / "err").write_bytes(b"oops\n")][0],
        lambda: add(b"two\n"),
        lambda: add(b"another one\n", 2, "wb"),
        lambda: add(b"\xff" * 300_000 + b"last\n", 2),
    )
    out, err = capfdbinary.readouterr()
    assert out == b"one\ntwo\nanother one\n" + b"\xff" * 300_000 + b"last\n"
    assert err == b"oops\nlbctl: attempt 1 failed; this is attempt 2\n"


def test_an_appended_file_is_not_shown_twice(daemon, monkeypatch, capfdbinary, tmp_path):
    path = tmp_path / "out"

    def add(data, attempt):
        with path.open("ab") as file:
            file.write(data)
        return attempt

    job = {"output": "out", "directory": str(tmp_path)}
    follow(daemon, monkeypatch, job, lambda: add(b"one\n", 1), lambda: add(b"two\n", 2))
    assert capfdbinary.readouterr().out == b"one\ntwo\n"


@pytest.mark.parametrize("place", ["nowhere", "of its own", "older"])
def test_following_what_cannot_be_read_here_says_where_it_is_and_returns(
    daemon, monkeypatch, capfdbinary, tmp_path, place
):
    path = tmp_path / "my out.5"
    if place == "older":
        path.write_bytes(b"of another job\n")
        os.utime(path, (1.0, 1.0))
    job = {"output": "my out.%j", "directory": "" if place == "of its own" else str(tmp_path)}
    left = follow(daemon, monkeypatch, job, *[lambda: 1] * 5)
    said = {
        "nowhere": f"{path}, which cannot be read here; it runs on h2",
        "of its own": "my out.5, in a directory of its own on h2",
        "older": f"{path}; follow it with: tail -f '{path}'",
    }[place]
    assert capfdbinary.readouterr() == (b"", f"lbctl: job 5 writes to {said}\n".encode())
    assert len(left) == 4


def test_a_file_that_the_attempt_has_yet_to_open_is_waited_for(tmp_path, capfd):
    job = JOB | {"output": "out", "directory": str(tmp_path), "user": OURSELVES}
    files = own_files.followed_files(job | {"started": time.time() + 1000.0}, None)
    assert files.copy(is_last=False)
    assert not files.copy(is_last=True)
    files = own_files.followed_files(job | {"started": time.time() - 1000.0}, None)
    assert not files.copy(is_last=False)


def test_errors_that_cannot_be_read_here_do_not_end_the_output(
    daemon, monkeypatch, capfdbinary, tmp_path
):
    job = {"error": "err", "directory": str(tmp_path)}
    assert follow(daemon, monkeypatch, job, *[lambda: 1] * 3) == []
    where = f"{tmp_path}/err, which cannot be read here"
    said = f"lbctl: the standard error of job 5 is in {where}\n"
    assert capfdbinary.readouterr().err.decode().endswith(said)


@pytest.mark.parametrize("fetched", [True, None, False])
def test_a_file_that_came_back_is_shown(daemon, capfdbinary, tmp_path, fetched):
    """Before it has, a file of that name is another job's."""
    (tmp_path / "run.5").write_bytes(b"result\n")
    own = {"output": "run.%j", "fetch": ["x", "./run.%j"], "submitted_in": str(tmp_path)}
    with_files(daemon, "", ("5", own | {"fetched": fetched, "origin": "h1"}))
    assert lbctl.main(["logs", "5"]) == 0
    how = "it has yet to come back from a directory of its own on h2"
    said = f"lbctl: job 5 wrote to {tmp_path}/run.5 on h1: {how}\n" if fetched is False else ""
    assert capfdbinary.readouterr() == (b"" if said else b"result\n", said.encode())


def test_for_a_file_that_could_not_be_opened_only_the_reason_is_shown(
    daemon, capfdbinary, tmp_path
):
    complaint = b"lbd: 1: cannot create out: Permission denied\n"
    with_files(daemon, tmp_path, ("5", {"output": "out"}), printed=complaint)
    (tmp_path / "out").write_bytes(b"of another job\n")
    assert lbctl.main(["logs", "5"]) == 0
    assert capfdbinary.readouterr() == (complaint, b"")


def test_the_job_says_why_its_file_could_not_be_opened(daemon, capfdbinary, tmp_path):
    (tmp_path / "out").write_bytes(b"of another job\n")
    why = "cannot open the output file out: Permission denied"
    with_files(daemon, tmp_path, ("5", {"output": "out", "reason": why}))
    assert lbctl.main(["logs", "5"]) == 0
    said = f"lbctl: job 5 never ran: {why}\n".encode()
    assert capfdbinary.readouterr() == (b"", said)


def test_a_file_that_never_answers_is_given_up(monkeypatch, capfd):
    """For example a file in a user's own FUSE file system."""

    def hangs(path, writer, *_):
        os.write(writer, b"some")
        time.sleep(600)

    monkeypatch.setattr(own_files, "read_file", hangs)
    monkeypatch.setattr(own_files, "STALLED_S", 2.0)
    own_files.OwnFile("/fuse/out", 1, 0.0, OURSELVES).copy()
    assert capfd.readouterr() == (
        "some", "lbctl: /fuse/out: nothing was read of it within 2 s; given up\n"
    )  # fmt: skip


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts it for all users")
@pytest.mark.parametrize("follows", [True, False])
def test_nobody_waits_to_hear_where_a_file_is_that_never_answers(
    daemon, monkeypatch, capfd, tmp_path, follows
):
    """It was looked for by name once more, by root itself, to say how to read it."""
    monkeypatch.setattr(own_files, "STALLED_S", 1.0)
    monkeypatch.setattr(own_files, "OPENS_S", 0.0)
    (place := tmp_path / "hung").mkdir()
    with HungFiles(place, 65534) as hung:
        job = {"output": hung.path, "state": "running" if follows else "failed"}
        with_files(daemon, tmp_path, ("5", job), running=follows)
        child = os.fork()
        if not child:
            hung.left_to_parent()
            os._exit(lbctl.main(["logs", *["-f"][:follows], "5"]))
        assert ended_within(child, 10.0)
    said = f"{hung.path}: nothing was read of it within 1 s; given up"
    does, runs = ("writes", "runs") if follows else ("wrote", "ran")
    where = f"job 5 {does} to {hung.path}, which cannot be read here; it {runs} on h2"
    assert capfd.readouterr().err == f"lbctl: {said}\nlbctl: {where}\n"


def ended_within(child, seconds):
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return False


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="root has more rights than a user")
def test_root_reads_nothing_that_the_jobs_user_could_not(capfd):
    """The file may be a link, and what root is shown may be sent on."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        secret, link, own = (os.path.join(directory, name) for name in ("secret", "link", "own"))
        for path, mode in ((secret, 0o600), (own, 0o644)):
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, mode), "w") as file:
                file.write(path)
        os.symlink(secret, link)
        for path in (secret, link, own):
            own_files.OwnFile(path, 1, 0.0, "daemon").copy()
        own_files.OwnFile(own, 1, 0.0, "nobody here").copy()
        assert capfd.readouterr() == (own, "")
        own_files.OwnFile(secret, 1, 0.0, "root").copy()
        assert capfd.readouterr().out == secret


def test_a_file_with_a_high_descriptor_number_is_read(daemon, capfdbinary, tmp_path):
    """select() accepts no descriptor above 1023."""
    (tmp_path / "out").write_bytes(b"read\n")
    with_files(daemon, tmp_path, ("5", {"output": "out"}))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2000)), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(open(os.devnull))
        lbctl.main(["logs", "5"])
    assert capfdbinary.readouterr().out == b"read\n"
