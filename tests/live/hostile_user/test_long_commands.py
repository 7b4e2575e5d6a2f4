"""A user queues commands as long as a queued one may be, and lists them without end."""

import contextlib
import subprocess
import time

import pytest

from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.text.command_words import QUEUED_WORDS_MAX
from tests.live.rogue import client_request
from tests.live.test_users import ANN, BOB, as_user

pytestmark = pytest.mark.root

LIST = """
import socket, sys, time
body = b'{"id": 1, "op": "jobs"}'
while True:
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(sys.argv[1])
            sock.sendall(len(body).to_bytes(4, "little") + b"J" + body)
            size, data = int.from_bytes(sock.recv(5, socket.MSG_WAITALL)[:4], "little"), b""
            while len(data) < size:
                data += sock.recv(1 << 20) or sys.exit("cut off")
            print(data.count(b'"pending"'), flush=True)
    except OSError as problem:
        print(repr(problem), flush=True)
        time.sleep(0.1)
"""
SUBMIT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(60)
    sock.connect(sys.argv[1])
    sock.sendall(sys.stdin.buffer.read())
    while data := sock.recv(4096):
        sys.stdout.buffer.write(data)
"""
JOBS, LISTING = 30, 6


def long(lab, words):
    """Queues a command of Ann's for later; returns the tag and the text of the last answer."""
    given = {"MODE": b"auto", "FLAGS": tags.FLAG_DETACH, "BEGIN": b"%f" % (time.time() + 3600)}
    arguments = frames.field(tags.ARGUMENT, b"") * (words - 1)
    frame = frames.pack(tags.QUEUE, client_request("true", **given) + arguments)
    done = subprocess.run(as_ann(lab, SUBMIT), input=frame, capture_output=True, check=True)
    return frames.Splitter(1 << 20).feed(done.stdout)[-1]


def as_ann(lab, script):
    socket = str(lab.paths("h1").socket("lbm"))
    return (*as_user(ANN), "/usr/bin/env", "-i", "python3", "-c", script, socket)


@contextlib.contextmanager
def listing(lab):
    """Yields one of several processes of Ann's that list all jobs again and again."""
    words = as_ann(lab, LIST)
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(LISTING)]
    try:
        yield started[0]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.communicate()


def test_others_commands_go_on_while_somebody_lists_jobs_as_long_as_allowed(queue_lab):
    """Thirty of a quarter of a million words had the LBM stand still for eight seconds, and others
    were told that it did not answer."""
    ids = []
    try:
        for _ in range(JOBS):
            tag, text = long(queue_lab, QUEUED_WORDS_MAX)
            assert tag == tags.QUEUED, text
            ids.append(text.decode())
        tag, text = long(queue_lab, QUEUED_WORDS_MAX + 1)
        assert (tag, b"more than 20000 arguments and variables" in text) == (tags.UNFIT, True), text
        with listing(queue_lab) as one:
            assert one.stdout.readline() == f"{JOBS}\n", "each list has them all"
            until_s, took = time.monotonic() + 6, []
            while time.monotonic() < until_s:
                for way in ((), ("-q",)):
                    began_s = time.monotonic()
                    done = queue_lab.run("h1", *as_user(BOB), "lbrun", *way, "echo", "mine")
                    took.append(time.monotonic() - began_s)
                    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr
            assert one.stdout.readline() == f"{JOBS}\n"
        assert max(took) < 3, took
    finally:
        queue_lab.run("h1", "lbctl", "cancel", *ids)
