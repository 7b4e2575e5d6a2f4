"""Commands that never start and clients that misbehave leave nothing in the daemons."""

import json
import os
import signal
import socket
import time
from functools import partial

import psutil
import pytest

from lbd.local import client_tags as tags
from lbd.local.frames import field, pack
from tests.live.cluster import Lab
from tests.live.contract import assert_one_line

MANY = 20
SLACK = 3  # a connection more or less


LAB = partial(Lab.up, 2)


def lbm_pid(lab, host):
    return int((lab.paths(host).run / "lbm.pid").read_text())


def open_descriptors(lab, host):
    return psutil.Process(lbm_pid(lab, host)).num_fds()


def assert_as_before(lab, host, before):
    lab.wait_until(
        lambda: open_descriptors(lab, host) <= before + SLACK,
        f"no more than {before} descriptors and a few", 30, lambda: open_descriptors(lab, host),
    )  # fmt: skip


def request(*command):
    words = b"".join(field(tags.ARGUMENT, word) for word in command)
    return pack(tags.RUN, words + field(tags.MODE, b"host") + field(tags.HOST, b"h2"))


def connect(lab):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(lab.paths("h1").run / "lbm.sock"))
    return client


def send_descriptors(client, times):
    for _ in range(times):
        socket.send_fds(client, [pack(b"?")], [0, 1, 2])


@pytest.mark.parametrize(
    "words", [("/nonexistent",), ("-C", "/nonexistent", "true")], ids=["command", "directory"]
)
def test_a_command_that_cannot_start_leaves_no_pipe_behind(lab, words):
    lab.run("h1", "lbrun", "-H", "h2", "true")
    before = open_descriptors(lab, "h2")
    for _ in range(MANY):
        lab.run("h1", "lbrun", "-H", "h2", *words)
    assert_as_before(lab, "h2", before)


def test_clients_that_hang_up_at_once_leave_nothing_behind(lab):
    before = open_descriptors(lab, "h1")
    for _ in range(MANY):
        with connect(lab) as client:
            client.sendall(request(b"true"))
    assert_as_before(lab, "h1", before)


def test_a_client_cannot_fill_the_lbm_with_descriptors(lab):
    before = open_descriptors(lab, "h1")
    with connect(lab) as client:
        client.sendall(request(b"sleep", b"5"))
        # From Linux 6.16 on, the kernel itself refuses them.
        with pytest.raises((BrokenPipeError, ConnectionResetError, PermissionError)):
            send_descriptors(client, 1000)
    assert_as_before(lab, "h1", before)


@pytest.mark.parametrize(
    ("words", "status"), [(("/no\udcff",), 127), (("-C", "/no\udcff", "true"), 125)]
)
def test_a_name_that_is_not_utf8_is_reported_like_any_other(lab, words, status):
    ended = lab.run("h1", "lbrun", "-H", "h2", *words)
    assert ended.returncode == status
    assert_one_line(ended.stderr, "lbrun", "No such file or directory")


def test_a_host_without_descriptors_left_runs_nothing_and_says_so(lab):
    pid = lbm_pid(lab, "h2")
    lab.run("h1", "lbrun", "-H", "h2", "true")
    limits = psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE)
    psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE, (open_descriptors(lab, "h2") + 3, limits[1]))
    try:
        ended = lab.run("h1", "lbrun", "-H", "h2", "echo", "ran")
    finally:
        psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE, limits)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert_one_line(ended.stderr, "lbrun", "h2", "Too many open files")
    assert "may have run" not in ended.stderr
    lab.wait_until(  # the host is avoided for a moment
        lambda: lab.run("h1", "lbrun", "-H", "h2", "echo", "ran").stdout == "ran\n", "it recovers"
    )


def test_a_removed_directory_is_never_taken_for_another_one(lab, tmp_path):
    script = "mkdir gone && cd gone && rmdir ../gone && exec lbrun -H h2 pwd"
    ended = lab.run("h1", "sh", "-c", script, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert "gone: the working directory has been removed" in ended.stderr.splitlines()[-1]


def test_a_stopped_lbm_copes_with_a_request_larger_than_its_socket_holds(lab):
    pid = lbm_pid(lab, "h1")
    os.kill(pid, signal.SIGSTOP)
    try:
        ended = lab.run("h1", "lbrun", "sh", "-c", "echo $#", "sh", *["x" * 100_000] * 8)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ended.stdout == "8\n"
    assert_one_line(ended.stderr, "lbrun", "running here")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("lbrun -H h2 echo lost >/dev/full", "standard output: No space left on device"),
        ("lbrun -H h2 echo lost 1<>/dev/full", "standard output: No space left on device"),
        ("lbrun -H h2 echo lost 1</dev/null", "standard output: Bad file descriptor"),
    ],
)
def test_a_file_that_could_not_be_moved_is_not_a_success(lab, command, said, tmp_path):
    ended = lab.run("h1", "sh", "-c", command, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert_one_line(ended.stderr, "lbrun", said)


def test_an_lbrun_that_fails_before_it_asks_records_it_in_the_status_file(lab, tmp_path):
    status = tmp_path / "status"
    ended = lab.run(
        "h1", "lbrun", "--status-file", status, "-C", tmp_path / "none", "--local", "true"
    )
    assert ended.returncode == 125
    seen = json.loads(status.read_text())
    assert (seen["exit_status"], seen["cause"]) == (125, "failed")
    assert str(tmp_path / "none") in seen["reason"]


def test_input_that_cannot_be_read_is_treated_as_empty(lab, tmp_path):
    ended = lab.run("h1", "sh", "-c", "lbrun -H h2 cat 0>written", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_order_cut_off_halfway_harms_no_other(lab):
    keeper = lab.pids()["h2"]["keeper"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        large = [f"-eV{number}={'x' * 100_000}" for number in range(8)]
        with lab.popen("h1", "lbrun", "-H", "h2", *large, "sleep", "30") as given_up:
            time.sleep(0.5)  # the keeper has as much as its socket holds
            given_up.kill()
        with lab.popen("h1", "lbrun", "-H", "h2", "echo", "ran", stdout=-1) as other:
            time.sleep(0.3)
            os.kill(keeper, signal.SIGCONT)
            assert other.communicate(timeout=90)[0] == b"ran\n"
    finally:
        os.kill(keeper, signal.SIGCONT)
    lab.wait_until(lambda: not lab.jobs_alive(), "nothing of it runs", 30, lab.jobs_alive)
