"""`lbrun -q` and `-d` by the compiled front ask, print and show what the Python client would."""

import os
import signal
import time

import pytest
from test_front import done, sorted_fields

from lbd.local import client_tags as tags
from lbd.local.caller import caller_of
from lbd.local.frames import fields, pack
from tests.live import sanitized

BOTH = ({}, {"LBD_FRONT": "python"})
QUEUED = pack(tags.QUEUED, b"7")


@pytest.fixture(scope="module")
def front():
    """The front with the sanitizers: the queue's own tests run it as it is installed."""
    return sanitized.need(sanitized.programs() / "lbrun")


def of_both(fake, argv, say, **options):
    """The result of the front, after checking that the Python client's is equal."""
    found = [fake.run(argv, say, **options, **more) for more in BOTH]
    ours, reference = [(one.returncode, one.stdout, one.stderr) for one in found]
    assert ours == reference
    return ours


ASKED = {
    "to wait": ("-q",),
    "to go on": ("-d",),
    "in full": ("--queue", "-H", "h2", "-C", "/usr", "--no-restart", "--name", "two words"),
    "with hosts left out": ("--detach", "-x", "h2", "-x", "h3", "-e", "A=1", "--no-stdin"),
    "with its speedup": ("-d", "-n", "1-8", "--speedup", "6,0.5", "--work", "2m"),
    "what only python knows": ("-d", "--array", "1-3", "--mem", "1G", "-o", "/tmp/lbd-t-output"),
}


@pytest.mark.parametrize("options", ASKED.values(), ids=ASKED)
def test_it_asks_what_the_python_client_asks(front, fake, options):
    argv = [front, *options, "true", "-q", "ü \n"]
    assert of_both(fake, argv, lambda peer, _: peer.sendall(done(0)), HOME="/root")[0] == 0
    (tag, body), (python_tag, python_body) = fake.requests
    assert tag == python_tag == tags.QUEUE
    found, reference = sorted_fields(body), sorted_fields(python_body)
    flags = [set(b"".join(kind.pop(tags.FLAGS))) for kind in (found, reference)]
    assert flags[0] == flags[1]
    unnamed = {tags.NAME: [b""]}
    assert unnamed | found == unnamed | reference


@pytest.mark.parametrize("size", [0, 5, 300_000])
def test_input_goes_along(front, fake, tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "input").write_bytes(data)
    with (tmp_path / "input").open("rb") as file:
        of_both(fake, [front, "-q", "cat"], seek_and_end(file), stdin=file)
    assert [dict(fields(body))[tags.INPUT_DATA] for _, body in fake.requests] == [data] * 2


def seek_and_end(file):
    """Both clients read the same open file, one after the other."""

    def say(connection, _):
        file.seek(0)
        connection.sendall(done(0))

    return say


def test_of_too_much_input_so_much_is_sent_that_the_lbm_refuses_it(front, fake, tmp_path):
    """It alone says the reason, as it alone knows its limits."""
    with (tmp_path / "input").open("wb+") as file:
        file.truncate(15 << 20)
        of_both(fake, [front, "-q", "cat"], seek_and_end(file), stdin=file)
    for _, body in fake.requests:
        assert 11 << 20 < len(dict(fields(body))[tags.INPUT_DATA]) < 12 << 20


ANSWERS = {
    "output": QUEUED + pack(tags.OUTPUT, b"a\0b\n") + pack(tags.ERRORS, b"oops\n") + done(3),
    "much output": QUEUED + pack(tags.OUTPUT, bytes(range(256)) * 1000) * 3 + done(0),
    "why it waits": QUEUED + pack(tags.WAITS, b"no free slot") + done(0),
    "a warning": QUEUED + pack(tags.WARN, b"5 bytes\nwere dropped") + done(0),
    "a signal": QUEUED + done(143, 15),
    "a failure": done(125, 0, b"this cluster has no queue"),
    "a refusal": pack(tags.UNFIT, b"too large"),
    "an end too soon": QUEUED + pack(tags.OUTPUT, b"half"),
    "nothing": b"",
    "a frame of a later version": QUEUED + pack(b"?", b"x" * 5000) + done(4),
}


@pytest.mark.parametrize("options", [("-q",), ("-qv",), ("-q", "-v"), ("-d",)])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers(front, fake, answer, options):
    of_both(fake, [front, *options, "true"], lambda peer, _: peer.sendall(answer))


def test_signals_are_passed_on(front, fake):
    """A second interrupt within a second ends the job by force."""
    came = []

    def say(connection, _):
        pid = caller_of(connection).pid
        connection.sendall(QUEUED)
        for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGINT):
            time.sleep(0.2)  # enough for it to have its handlers
            os.kill(pid, number)
            came.append(connection.recv(64))
        while len(b"".join(came)) < 3 * 6 + 5:
            came.append(connection.recv(64))
        connection.sendall(done(9))

    one, interrupt = (pack(tags.SIGNAL, bytes((n,))) for n in (signal.SIGUSR1, signal.SIGINT))
    assert fake.run([front, "-q", "true"], say).returncode == 9
    assert b"".join(came) == one + interrupt + pack(tags.FORCE) + interrupt


def test_it_ends_when_nobody_reads_its_output(front, fake):
    script = 'trap "" PIPE; "$0" -q true | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}'
    output = QUEUED + pack(tags.OUTPUT, b"x" * 500_000) * 4
    status, *_ = of_both(fake, ["bash", "-c", script, front], lambda peer, _: peer.sendall(output))
    assert status == 128 + signal.SIGPIPE


def test_output_that_cannot_be_written_is_named(front, fake):
    output = QUEUED + pack(tags.OUTPUT, b"hi")
    script = '"$0" -q echo hi >/dev/full'
    found = of_both(fake, ["bash", "-c", script, front], lambda peer, _: peer.sendall(output))
    assert found == (125, b"", b"lbrun: standard output: No space left on device\n")


@pytest.mark.parametrize("options", [("-q",), ("-d",)])
def test_a_silent_lbm_is_soon_given_up(front, fake, options):
    def say(connection, _):
        assert connection.recv(1) == b"", "it hangs up"

    status, out, err = of_both(fake, [front, *options, "true"], say)
    assert (status, out) == (125, b"")
    assert (
        err
        == b"lbrun: this host's LBM does not answer (stopped?), so the queue cannot be reached\n"
    )


def test_a_client_whose_request_was_read_waits_longer_for_the_queue(front, fake):
    def say(connection, _):
        connection.sendall(pack(tags.TAKEN))
        time.sleep(11)  # longer than an LBM may say nothing at all
        connection.sendall(QUEUED)
        connection.sendall(done(7))

    assert fake.run([front, "-q", "true"], say).returncode == 7
    assert fake.run([front, "-q", "true"], say, LBD_FRONT="python").returncode == 7
