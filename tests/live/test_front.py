"""The compiled front: small, built without a warning, equal to the Python client in what it asks
and prints, and unshaken by whatever an LBM might send."""

import contextlib
import os
import random
import shutil
import signal
import termios
import time
from pathlib import Path

import psutil
import pytest
from cluster import clients_path, compile_front, has_front, wait_until

from lbd.local import client_tags as tags
from lbd.local.caller import caller_of
from lbd.local.frames import field, fields, pack
from lbd.text.one_line import at_words

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "lbd/client/c/lbrun.c"
PARTS = (SOURCE, ROOT / "lbd/client/c/lbm.h", ROOT / "lbd/client/c/queue.h")
LINES = 400
FAILED = 125
LOST = b"lbrun: lost contact with this host's LBM; the command, if it had started, has been ended\n"
STRICT = "-Wall -Wextra -Wshadow -Wconversion -Werror"
SANITISED = "-U_FORTIFY_SOURCE -g -fsanitize=address,undefined -fno-sanitize-recover=all"
ENDS_OF_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


def need(what):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


def build(directory, flags):
    if not shutil.which("cc"):
        need("no C compiler")
    return compile_front(directory / "lbrun", Path(clients_path(), "lbrun-python"), *flags.split())


@pytest.fixture(scope="module")
def front():
    if not has_front():
        need("no compiled front")
    return Path(clients_path(), "lbrun")


@pytest.fixture(scope="module")
def sanitised(tmp_path_factory):
    made = build(tmp_path_factory.mktemp("front"), SANITISED)
    if not made.exists():
        need("no sanitisers")
    return made


# The source


def test_it_is_small_and_compiles_without_a_warning(tmp_path):
    assert all(len(part.read_text().splitlines()) < LINES for part in PARTS)
    assert build(tmp_path, STRICT).exists()


# Its requests

ASKED = {
    "plain": (),
    "host": ("-H", "h2"),
    "host in one word": ("-Hh2", "--"),
    "long host": ("--host=h2",),
    "all of it": ("--remote", "-x", "h3", "--exclude=h4", "--no-fallback", "-v", "--no-restart"),
    "a list": ("-x", "h3,h4", "-xh5"),
    "a name": ("--name", "two words"),
    "an empty name": ("--name=",),
    "directory": ("-C", "/usr"),
    "relative directory": ("--chdir", "live"),
    "empty directory": ("-C", ""),
    "environment": ("-e", "A=1", "-e", "PATH=/bin", "--env", "HOME", "-eB=2=3", "-e", "A=4"),
    "no input": ("--no-stdin", "-T"),
    "local": ("--local",),
    "local with a name": ("--local", "--name", "x"),
    "for python": ("-vT", "--timeout", "1h"),
}  # fmt: skip
ENVIRONMENTS = {
    "usual": {"HOME": "/root", "LBD_DEPTH": "3", "ODD": "a\nb=c\tü"},
    "depth nonsense": {"LBD_DEPTH": "x1"},
    "elsewhere": {"PWD": "/nowhere"},
}


def end_well(connection, frame):
    if frame and frame[0] == tags.LOCAL:
        here = ((tags.JOB, b"h1-1"), (tags.HOST, b"h1"), (tags.REASON, b"asked-to-stay"))
        connection.sendall(pack(tags.HERE, b"".join(field(*pair) for pair in here)))
    else:
        connection.sendall(done(0))


def done(status, number=0, reason=b"", cause=b"exited"):
    numbers = ((tags.STATUS, b"%d" % status), (tags.SIGNAL_NUMBER, b"%d" % number))
    return pack(
        tags.DONE, b"".join(field(*pair) for pair in (*numbers, (tags.REASON, reason),
                                                     (tags.CAUSE, cause)))
    )  # fmt: skip


def test_a_variable_that_is_not_there_is_named(front, fake):
    argv, said = [front, "-v", "-e", "NO_SUCH", "true"], b"lbrun: -e NO_SUCH: there is no such "
    assert fake.run(argv, end_well).stderr.startswith(said)


@pytest.mark.parametrize("options", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_it_asks_what_the_python_client_asks(front, fake, options, environment):
    argv = [front, *options, "true", "-v", "--", "", "ü \n"]
    ran = [
        fake.run(argv, end_well, **environment, **more) for more in ({}, {"LBD_FRONT": "python"})
    ]
    assert [(one.returncode, one.stdout, one.stderr) for one in ran] == [(0, b"", b"")] * 2
    (tag, body), (python_tag, python_body) = fake.requests
    assert tag == python_tag
    found, reference = sorted_fields(body), sorted_fields(python_body)
    if tag == tags.LOCAL:
        assert {key: found[key] for key in reference} == reference
    else:
        unnamed = {tags.NAME: [b""]}
        assert unnamed | found == unnamed | reference


def sorted_fields(body):
    """The fields by key; only arguments and excluded hosts have an order."""
    found = {}
    for key, value in fields(body):
        if value != b"LBD_FRONT=python":
            value = bytes(sorted(value)) if key == tags.FLAGS else value
            found.setdefault(key, []).append(value)
    return {
        key: values if key in (tags.ARGUMENT, tags.EXCLUDED) else sorted(values)
        for key, values in found.items()
    }


def test_a_large_request_arrives_whole(front, fake):
    words = [f"{number:05}" * 20 for number in range(9000)]
    environment = {f"V{number}": "x" * 10_000 for number in range(60)}
    result = fake.run([front, "-H", "h2", "true", *words], end_well, **environment)
    assert (result.returncode, result.stderr) == (0, b"")
    body = fake.requests[0][1]
    assert [v.decode() for k, v in fields(body) if k == tags.ARGUMENT] == ["true", *words]
    assert sum(k == tags.ENVIRONMENT and v[:1] == b"V" for k, v in fields(body)) == 60


def test_at_a_terminal_the_python_client_asks_again_for_a_command_that_leaves(front, fake):
    leader, follower = os.openpty()

    def say(connection, frame):
        flags = dict(fields(frame[1]))[tags.FLAGS]
        connection.sendall(pack(tags.AWAY) if tags.FLAG_ASK in flags else done(5))

    try:
        result = fake.run([front, "-C", "/", "true"], say, times=2, stdin=follower)
    finally:
        os.close(leader)
        os.close(follower)
    assert (result.returncode, result.stderr) == (5, b"")
    asked, again = (sorted_fields(body) for _, body in fake.requests)
    assert asked.pop(tags.FLAGS) == [bytes(sorted(b"?C/"))]
    assert tags.FLAG_TERMINAL_INPUT in again.pop(tags.FLAGS)[0]
    unnamed = {tags.NAME: [b""]}
    assert unnamed | asked == unnamed | again


# Its reading of the answers

ANSWERS = {
    "a status": (done(3), 3, b""),
    "a signal": (done(143, 15), -15, b""),
    "a signal that only stops": (done(128 + 20, 20), 148, b""),
    "a signal of another status": (done(124, 15, b"over its time"), 124, b"lbrun: over its time\n"),
    "a failure": (done(125, 0, b"no  such\nhost"), 125, b"lbrun: no such host\n"),
    "warnings": (
        pack(tags.WARN, b"one\n two ") + pack(tags.TAKEN) + pack(tags.WARN) + done(0), 0,
        b"lbrun: one two\nlbrun: \n",
    ),
    "nothing": (b"", FAILED, LOST),
    "half a header": (b"\x05\0\0", FAILED, LOST),
    "half a frame": (pack(tags.DONE, b"x" * 100)[:50], FAILED, LOST),
    "an endless frame": (b"\xff\xff\xff\x7fD" + b"x" * 1000, FAILED, LOST),
    "a frame of a later version": (pack(b"?", b"x" * 5000) + done(4), 4, b""),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "status", "said"), ANSWERS.values(), ids=ANSWERS)
def test_answers(front, fake, answer, status, said):
    result = fake.run([front, "-H", "h2", "true"], lambda peer, _: peer.sendall(answer))
    assert (result.returncode, result.stderr) == (status, said)


def assert_said_at_words(program, fake, text, columns):
    leader, follower = os.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    argv = ["sh", "-c", f'exec "$0" -H h2 true 2>{os.ttyname(follower)}', program]
    reason, said = text.encode(), b""
    try:
        fake.run(argv, lambda peer, _: peer.sendall(done(3, 0, reason)))
    finally:
        os.close(follower)
        with contextlib.suppress(OSError):  # its end, which what was printed comes before in pieces
            while piece := os.read(leader, 1 << 14):
                said += piece
        os.close(leader)
    assert said.decode().replace("\r", "").splitlines() == at_words(f"lbrun: {text}", columns)


def test_messages_are_broken_at_words_on_a_terminal(front, sanitised, fake):
    """By the same rule as the Python client's."""
    said = "ü cannot run; see `lbctl doctor --json h2` on h2, `or not at all"
    for columns in range(1, 80):
        assert_said_at_words(front, fake, said, columns)
    rng = random.Random(1)
    for _ in range(60):
        words = ["".join(rng.choices("ab`ü", k=rng.randint(1, 12))) for _ in range(12)]
        assert_said_at_words(sanitised, fake, " ".join(words), rng.randint(1, 60))


FULL = 'mkfifo p; exec 3<>p; dd if=/dev/zero bs=64k count=1 status=none >&3; exec "$@" 2>p'


@pytest.mark.parametrize("kind", ["c", "python"])
def test_a_signal_ends_a_client_that_cannot_say_that_its_lbm_is_gone(front, fake, tmp_path, kind):
    ended = ("timeout", "--foreground", "-k", "9", "2", front, "-C", "/", "-H", "h2", "true")
    argv = ["env", "-C", tmp_path, "sh", "-c", FULL, "sh", *ended]
    result = fake.run(argv, lambda *_: None, **({"LBD_FRONT": kind} if kind == "python" else {}))
    assert result.returncode == 124, "the signal did not end it"


def test_an_lbm_that_falls_silent_in_the_middle_of_a_frame(front, fake):
    def say(connection, _):
        connection.sendall(pack(tags.WARN, b"x" * 100)[:50])
        connection.recv(1)  # until the client is gone

    result = fake.run([front, "-H", "h2", "true"], say)
    assert (result.returncode, result.stderr) == (FAILED, LOST)


@pytest.mark.parametrize("reads", [True, False], ids=["asked", "not read"])
def test_an_lbm_that_does_not_answer(front, fake, reads):
    """The Python client reports it, in its words, and does not ask again."""

    def say(connection, _):
        while connection.recv(1 << 16):
            continue

    words = ["echo", *["x" * 100_000] * 15]  # more than the socket's buffer
    result = fake.run([front, *words], say if reads else lambda peer, _: time.sleep(5), reads)
    assert result.returncode == 0
    assert result.stdout.startswith(b"xxx")
    assert result.stderr == (b"lbrun: this host's LBM does not answer (stopped?); running here\n")
    result = fake.run([front, "-H", "h2", "true"], say)
    assert result.returncode == FAILED
    assert result.stderr == b"lbrun: this host's LBM does not answer (stopped?)\n"


def test_a_refusal_is_left_to_the_python_client(front, fake):
    result = fake.run(
        [front, "sh", "-c", "env | grep LBD_U"],
        lambda peer, _: peer.sendall(pack(tags.UNFIT, b"too large")),
    )
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr == b"lbrun: too large; running here\n"


def test_the_front_stops_when_the_command_has_stopped(front, fake):
    """And it reports when the command goes on."""

    def say(connection, _):
        pid = caller_of(connection).pid
        connection.sendall(pack(tags.STOPPED))
        stopped = psutil.STATUS_STOPPED
        wait_until(lambda: psutil.Process(pid).status() == stopped, "it has stopped")
        os.kill(pid, signal.SIGCONT)
        if connection.recv(6) == pack(tags.SIGNAL, bytes((signal.SIGCONT,))):
            connection.sendall(done(6))

    result = fake.run([front, "true"], say)
    assert (result.returncode, result.stderr) == (6, b"")


@pytest.mark.parametrize("client", ["c", "python"])
@pytest.mark.parametrize("answer", [tags.HERE, tags.UNFIT], ids=["here", "unfit"])
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGHUP], ids=str)
def test_a_signal_before_the_command_starts_here_reaches_the_command(
    front, fake, client, answer, number
):
    """The signal is the command's, wherever that runs: one without a handler dies of it."""

    def say(connection, _):
        os.kill(caller_of(connection).pid, number)
        assert connection.recv(6) == pack(tags.SIGNAL, bytes((number,)))
        here = ((tags.JOB, b"h1-1"), (tags.HOST, b"h1"), (tags.REASON, b"no-better-host"))
        connection.sendall(pack(answer, b"".join(field(*pair) for pair in here)))

    result = fake.run([front, "echo", "it ran"], say, LBD_FRONT=client)
    assert (result.returncode, result.stdout) == (-number, b"")


# Garbage

TAKES_TIME = (tags.STOPPED, tags.AWAY)  # these stop it, or make it ask another LBM
KNOWN = [
    value
    for name, value in vars(tags).items()
    if name.isupper() and len(value) == 1 and value not in TAKES_TIME
]


def garbage(rng):
    """Random bytes that are frames now and then."""
    pieces = []
    for _ in range(rng.randrange(1, 6)):
        kind = rng.random()
        pairs = b"".join(
            field(rng.choice(KNOWN), rng.choice((b"", b"0", b"true", rng.randbytes(9))))
            for _ in range(rng.randrange(8))
        )
        if kind < 0.5:
            pieces.append(pack(rng.choice(KNOWN), pairs))
        elif kind < 0.7:
            pieces.append(pack(rng.choice(KNOWN), rng.randbytes(rng.randrange(3000))))
        elif kind < 0.8:
            pieces.append(pack(rng.choice(KNOWN), pairs)[: rng.randrange(40)])
        elif kind < 0.9:
            pieces.append(pack(tags.WARN, b" a\n" * rng.randrange(300_000)))
        else:
            pieces.append(rng.randbytes(rng.randrange(100)))
    return b"".join(pieces)


def assert_survives(program, fake, seed):
    data = garbage(random.Random(seed))
    options = random.Random(seed).choice(
        ((), ("-H", "h2"), ("-v", "--remote"), ("--local",), ("-q", "-v"), ("-d",))
    )
    argv = [program, *options, "/bin/sh", "-c", "exit 7"]
    result = fake.run(argv, lambda peer, _: peer.sendall(data), LBD_FRONT_SEED=str(seed))
    said = result.stderr
    assert b"anitizer" not in said, (seed, said)
    assert b"runtime error" not in said, (seed, said)
    assert -result.returncode not in ENDS_OF_CRASHES, (seed, said)
    if not {"-q", "-d"}.intersection(options):  # otherwise it also shows what the job prints
        assert all(line.startswith(b"lbrun: ") for line in said.splitlines()), (seed, said)


def test_garbage_from_the_lbm(front, fake):
    for seed in range(300):
        assert_survives(front, fake, seed)


def test_garbage_under_the_sanitisers(sanitised, fake):
    for seed in range(1000, 1120):
        assert_survives(sanitised, fake, seed)


@pytest.mark.parametrize("options", ASKED.values(), ids=ASKED)
def test_requests_under_the_sanitisers(sanitised, fake, options):
    result = fake.run([sanitised, *options, "true", "x" * 5000], end_well, **ENVIRONMENTS["usual"])
    assert (result.returncode, result.stderr) == (0, b"")
