"""The three streams of a command placed by lbrun: every byte, as it comes, and their ends."""

import hashlib
import os
import random
import signal
import socket
import subprocess
from functools import partial

import psutil
import pytest
from contract import PYTHON, WHERE, alive, assert_gone, bounded, everywhere, shell_status

from tests.live.cluster import Lab, wait_until

pytestmark = pytest.mark.usefixtures("client")

LAB = partial(Lab.up, 2)
BYTES = bytes(range(256)) * 7 + b"\r\n\n\0no line end"
MIB = 1 << 20
SHA = "import hashlib, sys; print(hashlib.file_digest(sys.stdin.buffer, 'sha256').hexdigest())"


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


@everywhere
def test_every_byte_both_ways(lab, where):
    result = lab.run("h1", "lbrun", *where, "cat", input=BYTES, text=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, BYTES, b"")


@everywhere
def test_every_byte_on_stderr(lab, where):
    words = ("lbrun", *where, "sh", "-c", "cat >&2")
    result = lab.run("h1", *words, input=BYTES, text=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", BYTES)


@everywhere
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, MIB - 1, MIB, MIB + 1, 5 * MIB + 7])
def test_sizes_around_any_buffer(lab, where, size):
    data = noise(size)
    result = lab.run("h1", "lbrun", *where, "cat", input=data, text=False)
    assert (result.returncode, len(result.stdout)) == (0, size)
    assert result.stdout == data


@everywhere
def test_streams_are_kept_apart(lab, where):
    script = "for i in $(seq 2000); do echo out $i; echo err $i >&2; done"
    result = lab.run("h1", "lbrun", *where, "sh", "-c", script)
    assert result.stdout == "".join(f"out {number}\n" for number in range(1, 2001))
    assert result.stderr == "".join(f"err {number}\n" for number in range(1, 2001))


@everywhere
def test_all_three_at_once(lab, where):
    """Much input, and as much on both outputs, with a reader that takes one after the other."""
    data = noise(3 * MIB)
    result = lab.run("h1", "lbrun", *where, "tee", "/dev/stderr", input=data, text=False)
    assert result.returncode == 0
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()
    assert hashlib.sha256(result.stderr).digest() == hashlib.sha256(data).digest()


@everywhere
def test_output_flows_as_it_is_produced(lab, where):
    """Each answer is seen before the next question is sent: no buffer waits for an end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    script = 'while read line; do echo "out $line"; echo "err $line" >&2; done; echo end'
    with lab.popen("h1", "lbrun", *where, "sh", "-c", script, text=True, **pipes) as job:
        for number in range(20):
            job.stdin.write(f"{number}\n")
            job.stdin.flush()
            assert job.stdout.readline() == f"out {number}\n"
            assert job.stderr.readline() == f"err {number}\n"
        job.stdin.close()
        assert job.stdout.read() == "end\n"
        assert job.wait(30) == 0


@everywhere
def test_part_of_a_line_flows_too(lab, where):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with lab.popen("h1", "lbrun", *where, "sh", "-c", "printf '? '; read x", **pipes) as job:
        assert os.read(job.stdout.fileno(), 10) == b"? "
        job.stdin.close()
        assert job.wait(30) == 1


# Ends


@everywhere
def test_end_of_input_reaches_the_command(lab, where):
    result = lab.run("h1", "lbrun", *where, "wc", "-c", input="12345")
    assert result.stdout.strip() == "5"


@everywhere
def test_a_command_that_closes_its_output_gives_an_end(lab, where):
    """Our reader sees the end while the command goes on, as with a command run here."""
    script = "exec >&-; read line; echo $line >&2"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with lab.popen("h1", "lbrun", *where, "sh", "-c", script, **pipes) as job:
        with bounded(job):
            assert job.stdout.read() == b""
        assert job.poll() is None
        _, errors = job.communicate(b"went on\n", timeout=120)
        assert (job.returncode, errors) == (0, b"went on\n")


@everywhere
def test_a_command_that_closes_its_input_stops_the_writer(lab, where, tmp_path):
    """The writer gets a broken pipe while the command goes on, as with a command run here."""
    go = tmp_path / "go"
    script = f"exec <&-; while [ ! -e {go} ]; do sleep 0.05; done; echo went on"
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as writer:
        words = ("lbrun", *where, "sh", "-c", script)
        with lab.popen("h1", *words, stdin=writer.stdout, stdout=subprocess.PIPE) as job:
            writer.stdout.close()
            try:
                with bounded(writer):
                    writer.wait()
            finally:
                go.touch()
            assert job.communicate(timeout=120)[0] == b"went on\n"
            assert (job.returncode, -writer.returncode) == (0, signal.SIGPIPE)


@everywhere
def test_endless_input_ends_with_the_command(lab, where):
    result = lab.run("h1", "sh", "-c", f"yes | lbrun {' '.join(where)} head -n 1")
    assert (result.returncode, result.stdout, result.stderr) == (0, "y\n", "")


@everywhere
def test_endless_output_ends_with_its_reader(lab, where, tmp_path):
    """`lbrun yes | head -n 1` behaves as `yes | head -n 1`: quiet, killed by SIGPIPE, gone."""
    script = (
        f"{{ lbrun {' '.join(where)} sh -c 'echo $$ >{tmp_path}/pid; exec yes'; echo $? "
        f">{tmp_path}/status; }} | head -n 1"
    )
    result = lab.run("h1", "sh", "-c", script)
    assert (result.stdout, result.stderr) == ("y\n", "")
    assert (tmp_path / "status").read_text() == f"{128 + signal.SIGPIPE}\n"
    assert_gone([int((tmp_path / "pid").read_text())])


@everywhere
def test_a_reader_of_stderr_that_goes_away_ends_the_writer(lab, where, tmp_path):
    script = f"lbrun {' '.join(where)} sh -c 'echo $$ >{tmp_path}/pid; exec yes >&2' 2>&1 >&3"
    result = lab.run("h1", "sh", "-c", f"({script} | head -n 1) 3>/dev/null")
    assert result.stdout == "y\n"
    assert_gone([int((tmp_path / "pid").read_text())])


@everywhere
def test_output_before_a_failure_is_not_lost(lab, where):
    script = f"{' '.join(PYTHON)} -c 'print(\"x\" * {MIB})'; exit 9"
    result = lab.run("h1", "lbrun", *where, "sh", "-c", script)
    assert (result.returncode, len(result.stdout)) == (9, MIB + 1)


@everywhere
def test_output_before_a_signal_is_not_lost(lab, where):
    script = f"{' '.join(PYTHON)} -c 'print(\"x\" * {MIB})'; kill -9 $$"
    result = lab.run("h1", "lbrun", *where, "sh", "-c", script)
    assert (shell_status(result.returncode), len(result.stdout)) == (137, MIB + 1)


# Our own three descriptors


CLOSED = ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"]


@everywhere
@pytest.mark.parametrize("closed", CLOSED)
def test_closed_descriptors(lab, where, closed):
    """The open descriptors work, and nothing is written elsewhere in place of a closed one."""
    script = f"lbrun {' '.join(where)} sh -c 'echo out; echo err >&2; exit 3' {closed}"
    result = lab.run("h1", "sh", "-c", script, input="", text=True)
    assert result.returncode == 3
    assert result.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "out\n")
    if "2>&-" in closed:
        assert result.stderr == ""
    else:
        assert result.stderr.endswith("err\n")


@everywhere
@pytest.mark.parametrize("closed", CLOSED)
def test_own_failures_with_closed_descriptors(lab, where, closed):
    result = lab.run("h1", "sh", "-c", f"lbrun {' '.join(where)} no-such-command_ {closed}")
    assert (result.returncode, result.stdout) == (127, "")


@everywhere
def test_input_from_dev_null(lab, where):
    result = lab.run("h1", "lbrun", *where, "wc", "-c", stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout.strip()) == (0, "0")


@everywhere
def test_input_from_a_file_and_output_to_one(lab, where, tmp_path):
    (tmp_path / "in").write_bytes(data := noise(2 * MIB))
    with (tmp_path / "in").open("rb") as given, (tmp_path / "out").open("wb") as taken:
        os.lseek(given.fileno(), 100, os.SEEK_SET)
        job = lab.popen("h1", "lbrun", *where, "cat", stdin=given, stdout=taken)
        assert job.wait(30) == 0
    assert (tmp_path / "out").read_bytes() == data[100:]


@everywhere
def test_output_appends_where_the_file_is_open_for_it(lab, where, tmp_path):
    words = f"lbrun {' '.join(where)} echo two"
    lab.run("h1", "sh", "-c", f"{{ echo one; {words}; echo three; }} >{tmp_path}/log 2>&1")
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\n"


@everywhere
def test_socketpairs(lab, where):
    ours, theirs = socket.socketpair()
    with ours, lab.popen("h1", "lbrun", *where, "cat", stdin=theirs, stdout=theirs) as job:
        theirs.close()
        ours.settimeout(30)
        for _ in range(3):
            ours.sendall(BYTES)
            got = b""
            while len(got) < len(BYTES):
                got += ours.recv(MIB)
            assert got == BYTES
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert job.wait(30) == 0


@everywhere
def test_non_blocking_pipes(lab, where):
    """Whoever made a pipe may have set its other end non-blocking."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    out_reader, out_writer = os.pipe()
    os.set_blocking(out_writer, False)
    data = noise(MIB)
    words = ("lbrun", *where, *PYTHON, "-c", SLOW_COPY)
    with lab.popen("h1", *words, stdin=reader, stdout=out_writer) as job:
        os.close(reader)
        os.close(out_writer)
        with os.fdopen(writer, "wb") as feed, os.fdopen(out_reader, "rb") as taken:
            feeder = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=feed)
            feed.close()
            taker = subprocess.Popen([*PYTHON, "-c", SHA], stdin=taken, stdout=subprocess.PIPE)
            with feeder, taker:
                feeder.communicate(data, timeout=120)
                digest = taker.communicate(timeout=120)[0]
        assert job.wait(30) == 0
    assert digest.decode().strip() == hashlib.sha256(data).hexdigest()


# Copies patiently, whatever O_NONBLOCK says.
SLOW_COPY = """
import os, select
def wait(reading, writing):
    select.select(reading, writing, [])
while True:
    wait([0], [])
    if not (piece := os.read(0, 65536)):
        break
    while piece:
        wait([], [1])
        try:
            piece = piece[os.write(1, piece):]
        except BlockingIOError:
            pass
"""


# Loops and large amounts


@everywhere
def test_no_stdin_in_a_loop(lab, where):
    words = f"lbrun --no-stdin {' '.join(where)} sh -c 'cat; echo got $1' sh"
    script = f'printf "a\nb\nc\n" | while read line; do {words} "$line"; done'
    assert lab.run("h1", "sh", "-c", script).stdout == "got a\ngot b\ngot c\n"


def test_a_slow_reader_holds_the_writer(lab, tmp_path):
    """200 MB wait for a reader that takes nothing yet; the daemons do not buffer them."""
    size = 200 * MIB
    count = tmp_path / "written"
    us = daemons(lab)
    before = resident(us)
    script = f"head -c {size} /dev/zero | tee >(wc -c >{count}) | cat"
    with lab.popen("h1", "lbrun", *WHERE["away"], "bash", "-c", script,
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as job:  # fmt: skip
        job.stdout.read(1)
        settled(lambda: bytes_moved(us))
        peak = resident(us)
        assert not count.exists() or count.read_text() == ""
        taken = 1
        while piece := job.stdout.read(MIB):
            taken += len(piece)
            peak = max(peak, resident(us))
        assert (taken, job.wait(30)) == (size, 0)
    assert peak - before < 80 * MIB


def test_a_slow_command_holds_our_writer(lab, tmp_path):
    """The same into a command that does not read yet."""
    size = 200 * MIB
    go = tmp_path / "go"
    us = daemons(lab)
    before = resident(us)
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; exec wc -c"
    words = ("lbrun", *WHERE["away"], "sh", "-c", script)
    with (
        subprocess.Popen(["head", "-c", str(size), "/dev/zero"], stdout=subprocess.PIPE) as writer,
        lab.popen("h1", *words, stdin=writer.stdout, stdout=subprocess.PIPE) as job,
    ):
        writer.stdout.close()
        try:
            settled(lambda: bytes_moved(us))
            peak = resident(us)
            held = alive(writer.pid)
        finally:
            go.touch()
        out, _ = job.communicate(timeout=60)
    assert held
    assert (int(out), job.returncode) == (size, 0)
    assert peak - before < 80 * MIB


def daemons(lab):
    return [psutil.Process(pid) for parts in lab.pids().values() for pid in parts.values() if pid]


def resident(processes):
    """Resident memory of all the processes, in bytes."""
    return sum(process.memory_info().rss for process in processes)


def bytes_moved(processes):
    """Bytes that the processes have read and written since they started."""
    counters = [process.io_counters() for process in processes]
    return sum(counter.read_chars + counter.write_chars for counter in counters)


def settled(measure, calm=MIB):
    """Waits until `measure` grows by less than `calm` between two looks."""
    seen = [measure()]

    def grew_little():
        seen.append(measure())
        return seen[-1] - seen[-2] < calm

    wait_until(grew_little, "things settle", 30)


def test_many_megabytes_through_and_back(lab):
    data = noise(MIB) * 64
    result = lab.run("h1", "lbrun", *WHERE["away"], "cat", input=data, text=False, timeout=60)
    assert result.returncode == 0
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


def test_many_at_once_do_not_mix(lab):
    """Each of 24 commands gets its own bytes back."""
    jobs = []
    for number in range(24):
        where = list(WHERE.values())[number % 3]
        job = lab.popen("h1", "lbrun", *where, "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        jobs.append((job, noise(200_000, seed=number)))
    for job, data in jobs:
        assert job.communicate(data, timeout=60)[0] == data
        assert job.returncode == 0
