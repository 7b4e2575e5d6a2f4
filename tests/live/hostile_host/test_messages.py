"""Hosts and users that know our protocols and break their rules: nobody else notices them."""

import contextlib
import os
import socket
import termios
import threading
import time
from functools import partial

import grpc
import pytest
from cluster import SERVED, Lab
from rogue import SECONDS, Peer, client_request, connect, frames_of, run_request

from lbd.errors import LbdError
from lbd.launch.terminal_modes import pack_modes, raw_modes
from lbd.lbm.link import wire as tags
from lbd.lim.core import messages as m
from lbd.local import client_tags, frames
from lbd.net.gen import lbm_pb2

HUGE = (1 << 64) - 1
FRAME_BYTES = len(frames.pack(b"S", b"s"))
GARBAGE = (
    b"\xff" * 10, frames.pack(b"S"), frames.pack(b"S", b"\0" * 7), frames.pack(b"?"),
    frames.pack(b"K", frames.field(b"j", b"\xff")),
)  # fmt: skip


LAB = partial(Lab.up, 2)


@pytest.fixture(autouse=True)
def unharmed(lab):
    """Checks that the same processes run as before, no job is left and no log has a traceback.
    Yields the set of parts that may be restarted."""
    lab.assert_all_served()
    before, tracebacks = lab.pids(), lab.logs(1000).count("Traceback")
    anew = set()
    yield anew
    lab.assert_all_served()
    after = lab.pids()
    assert all(after[host][part] for host in before for part in anew)
    for pids in (*before.values(), *after.values()):
        for part in anew:
            del pids[part]
    assert after == before
    lab.wait_until(lambda: not lab.jobs_alive(), "no job is left")
    lab.wait_until(
        lambda: not lab.ask("h1", "lbm", "jobs")["jobs"], "none is listed", 30,
        lambda: lab.ask("h1", "lbm", "jobs"),
    )  # fmt: skip
    logs = lab.logs(1000)
    assert logs.count("Traceback") == tracebacks, logs


@pytest.fixture
def peer(lab):
    with Peer(lab, "h1") as peer:
        yield peer


def first_answer(peer, *messages):
    """The LBM's first answer, after which the stream closes and so ends what runs."""
    for _, tag, body in peer.converse(messages):
        if tag != tags.QUEUED:
            return tag, body
    raise AssertionError("it said nothing")


def refusal(peer, *messages):
    tag, body = first_answer(peer, *messages)
    assert tag == tags.REFUSED, (tag, body)
    return lbm_pb2.Refused.FromString(body).reason


def await_start(sock):
    """Waits until the command of a RUN runs on its host and the LBM asks for our descriptors."""
    assert client_tags.GIVE in (tag for tag, _ in frames_of(sock))
    sock.sendall(frames.pack(client_tags.DESCRIPTORS))


def test_a_signal_that_does_not_exist(lab):
    """Such a signal once ended the keeper, and with it all jobs on that host."""
    with lab.popen("h1", "lbrun", "-H", "h2", "sleep", "20", stdout=-1) as other:
        lab.wait_until(lambda: len(lab.jobs_alive()) == 1, "it runs")
        with connect(lab, "h1", "lbm") as sock:
            sock.sendall(frames.pack(client_tags.RUN, client_request("sleep", "21")))
            await_start(sock)
            for number in (200, 255, 0, 65):
                sock.sendall(frames.pack(client_tags.SIGNAL, bytes((number,))))
            time.sleep(0.3)
        lab.wait_until(lambda: len(lab.jobs_alive()) == 1, "the sender's job has ended")
        other.terminate()
        assert other.wait(30) != 0


def test_more_closed_descriptors_than_there_are(lab, peer):
    """One of a job's descriptors was once left over for the next job, possibly another user's."""
    odd = run_request("h2-odd.1", "echo", "mine", closed_fds=8, wants_stdin=True)
    assert "closed_fds" in refusal(peer, tags.pack(1, tags.RUN, odd))
    result = lab.run("h2", "lbrun", "-H", "h1", "cat", input="theirs\n")
    assert (result.returncode, result.stdout) == (0, "theirs\n")


@pytest.mark.parametrize("says_so", [False, True], ids=["killed", "another's by now"])
def test_a_client_that_is_gone_after_its_end_leaves_no_raw_terminal(lab, says_so):
    """The client has heard that its command ended, and is killed before it restores the
    terminal."""
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    request = client_request(
        "sleep", "0.3", TERMINAL=b"24 80 0 0", MODES=pack_modes(modes), CLOSED_FDS=b"0",
        FLAGS=client_tags.FLAG_TERMINAL_INPUT,
    )  # fmt: skip
    with connect(lab, "h1", "lbm") as sock:
        sock.sendall(frames.pack(client_tags.RUN, request))
        answers = frames_of(sock)
        assert client_tags.GIVE in (tag for tag, _ in answers)
        termios.tcsetattr(theirs, termios.TCSANOW, raw_modes(modes))
        socket.send_fds(sock, [frames.pack(client_tags.DESCRIPTORS)], [theirs] * 3)
        sock.sendall(frames.pack(client_tags.READY))
        assert client_tags.DONE in (tag for tag, _ in answers)
        if says_so:
            sock.sendall(frames.pack(client_tags.RESTORED))
            assert next(answers, None) is None
    if not says_so:
        lab.wait_until(lambda: termios.tcgetattr(theirs) == modes, "the terminal as it was")
    assert (termios.tcgetattr(theirs) == modes) is not says_so
    os.close(ours)
    os.close(theirs)


SENSELESS_REQUESTS = (
    {"timeout_s": float("inf")}, {"timeout_s": float("nan")}, {"timeout_s": -1.0},
    {"memory_bytes": HUGE}, {"umask": 0o1000}, {"directory": b"tmp"}, {"nice": -10},
    {"directory": b"/tmp\0/x"}, {"argv": []}, {"job_id": "../x"}, {"origin": "h2\nh3"},
    {"user": "x" * 1000}, {"name": "\x1b[2J" * 10}, {"argv": [b""]}, {"environment": [b"A\0=b"]},
    {"limits": [lbm_pb2.ResourceLimit(resource=9999)]}, {"workdir": lbm_pb2.WorkdirStep(id="x")},
    {"directory_stamp": lbm_pb2.DirectoryStamp(kernel="a 1 2 3 4 b")},
    {"terminal": lbm_pb2.Terminal(size=b"1 2", modes=b"x")},
)  # fmt: skip


def test_requests_with_a_senseless_value(peer):
    """The request is refused or runs without the value; either way the answer is one line."""
    for number, fields in enumerate(SENSELESS_REQUESTS):
        message = run_request(fields.pop("job_id", f"h2-odd.{number}"), "true", **fields)
        tag, body = first_answer(peer, tags.pack(1, tags.RUN, message))
        assert tag in (tags.REFUSED, tags.STARTED), fields
        if tag == tags.REFUSED:
            reason = lbm_pb2.Refused.FromString(body).reason
            assert reason, fields
            assert reason.isprintable(), fields


def test_the_same_command_again(lab, peer, tmp_path):
    """The command is sent again while it runs and after it has ended."""
    message = run_request("h2-again.1", "sh", "-c", f"echo x >>{tmp_path}/ran; sleep 0.5")
    said = {}
    for number, tag, body in peer.converse(send_then_wait(message)):
        said.setdefault(number, (tag, body))
        if number == 3:
            break
    assert said[1][0] == tags.STARTED
    for number in (2, 3):
        assert said[number][0] == tags.REFUSED
        assert "already" in lbm_pb2.Refused.FromString(said[number][1]).reason
    assert (tmp_path / "ran").read_text() == "x\n"


def send_then_wait(message):
    """Sends the same command three times on one stream, the last time after it has ended."""
    yield tags.pack(1, tags.RUN, message)
    yield tags.pack(2, tags.RUN, message)
    time.sleep(1.5)
    yield tags.pack(3, tags.RUN, message)
    time.sleep(1)


def test_more_input_than_the_window(lab, peer):
    """The command does not read; input beyond the window does not fill our memory."""

    started = threading.Event()

    def flood():
        yield tags.pack(1, tags.RUN, run_request("h2-flood.1", "sleep", "30", wants_stdin=True))
        started.wait(SECONDS)
        for _ in range(64):
            yield tags.pack(1, tags.STDIN, bytes(1 << 20))

    for _, tag, body in peer.converse(flood()):
        if tag == tags.STARTED:
            started.set()
        if tag == tags.ENDED:
            assert lbm_pb2.Ended.FromString(body).cause == "lost"
            break
    else:
        raise AssertionError("it went on")


@pytest.mark.parametrize(
    "body",
    [
        m.Ack(unknown_sender=True, known_incarnation=1),
        m.Settings(HUGE, "h2", "GLOBAL"),
        m.Hello(m.Member("h2", "127.0.0.2", 1, 1, 0, HUGE), False),
    ],
    ids=lambda body: type(body).__name__,
)
def test_senseless_numbers(lab, peer, body):
    with pytest.raises(grpc.RpcError) as refused:
        peer.deliver(body, incarnation=HUGE)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_client_that_never_pauses(lab):
    """A client that sends at full speed holds up nobody else."""
    with connect(lab, "h1", "lbm") as sock:
        sock.sendall(frames.pack(client_tags.RUN, client_request("sleep", "20")))
        await_start(sock)
        sock.setblocking(False)
        noise = frames.pack(client_tags.SIGNAL, b"\x17") * 10_000  # SIGURG: ignored
        until_s = time.monotonic() + 3
        served = sent = 0
        while time.monotonic() < until_s:
            try:
                sent += sock.send(noise[sent % FRAME_BYTES :])
            except BlockingIOError:
                served += lab.run("h1", "lbrun", "--local", "echo").returncode == 0
        assert served
        assert lab.served("h1", "h2") == SERVED  # nor is anybody held up where the command runs
    assert sent > 100_000


SENSELESS_FIELDS = (
    {"MEMORY": b"-1"}, {"MEMORY": b"9" * 30}, {"TIMEOUT": b"inf"}, {"TIMEOUT": b"nan"},
    {"DEPTH": b"9" * 12}, {"HOST": b"x" * 5000}, {"NAME": b"\x1b[2Jx"}, {"HOST": b"\xff"},
    {"EXCLUDED": b"x" * 2_000_000}, {"MODES": b"1 2 3"}, {"TERMINAL": b"-1 2 3 4"},
)  # fmt: skip


def test_clients_with_a_senseless_value(lab):
    for fields in SENSELESS_FIELDS:
        with connect(lab, "h1", "lbm") as sock:
            sock.sendall(frames.pack(client_tags.RUN, client_request("true", **fields)))
            passing = (client_tags.TAKEN, client_tags.WARN)
            tag = next(tag for tag, _ in frames_of(sock) if tag not in passing)
            assert tag in (client_tags.UNFIT, client_tags.GIVE, client_tags.DONE), fields


def test_a_question_too_long_for_the_lim(lab):
    """A user's question must not cost the LBM its connection to the LIM."""
    words = {"op": "explain", "program": "true", "path": "/bin", "directory": "/"}
    with pytest.raises(LbdError, match="too long"):
        lab.ask("h1", "lbm", **words, excluded=["x" * 100] * 20_000)


def test_garbage_for_the_keeper(lab, unharmed):
    """Only root and the daemons' own user can connect to the keeper. Such a client takes the LBM's
    place, and the LBM then starts another keeper."""
    unharmed.add("keeper")
    served = lambda: lab.run("h2", "lbrun", "-H", "h1", "true").returncode == 0  # noqa: E731
    for data in GARBAGE:
        lab.wait_until(served, "a keeper is there")
        with connect(lab, "h1", "keeper") as sock, contextlib.suppress(BrokenPipeError):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            for _ in frames_of(sock):
                pass
    lab.wait_until(served, "served")
