"""What `lbctl logs` shows of the files that jobs write to with `-o` and `--error`."""

import base64
import os
import pwd
import resource
import tempfile
import time
from contextlib import ExitStack

import pytest

from lbd.cli import lbctl
from lbd.cli.ctl.jobs import own_files
from tests.unit.cli.canned import JOB

OURSELVES = pwd.getpwuid(os.geteuid()).pw_name


def with_files(daemon, directory, *jobs, printed=b""):
    """Starts a daemon that has stored `printed` for each of these jobs with output files."""
    found = {name: JOB | {"id": name, "state": "failed", "exit_status": 1, "started": time.time(),
                          "directory": str(directory), "host": "h2", "user": OURSELVES, **fields}
             for name, fields in jobs}  # fmt: skip
    data = [base64.b64encode(printed).decode()] if printed else []

    def asked(question):
        names = [name for name in found if name in question["ids"]] or list(found)
        return {"ok": True, "jobs": [found[name] for name in names]}

    def logs(question):
        return {"ok": True, "attempt": 1, "at": [1, 0], "data": [] if question["at"][0] else data}

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


def test_the_path_of_a_running_job_can_be_followed(daemon, capfdbinary, tmp_path):
    directory = tmp_path / "my runs"
    directory.mkdir()
    (directory / "out.5").touch()
    with_files(daemon, directory, ("5", {"output": "out.%j", "state": "running"}))
    assert lbctl.main(["logs", "-f", "5"]) == 0
    path = f"{directory}/out.5"
    said = f"lbctl: job 5 writes to {path}; follow it with: tail -f '{path}'\n"
    assert capfdbinary.readouterr() == (b"", said.encode())


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

    def hangs(path, writer, started_unix_s):
        os.write(writer, b"some")
        time.sleep(600)

    monkeypatch.setattr(own_files, "read_file", hangs)
    monkeypatch.setattr(own_files, "STALLED_S", 2.0)
    own_files.copy_file("/fuse/out", 1, 0.0, OURSELVES)
    assert capfd.readouterr() == (
        "some", "lbctl: /fuse/out: nothing was read of it within 2 s; given up\n"
    )  # fmt: skip


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
            own_files.copy_file(path, 1, 0.0, "daemon")
        own_files.copy_file(own, 1, 0.0, "nobody here")
        assert capfd.readouterr() == (own, "")
        own_files.copy_file(secret, 1, 0.0, "root")
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
