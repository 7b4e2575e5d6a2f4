"""What an lbrun may request: invalid requests, and those too slow to read, are refused."""

import pytest

from lbd.lbm.core.journey_events import NotRun, Used
from lbd.lbm.inbound.request import fault_of
from lbd.lbm.queue.submit import read_queued
from lbd.lbm.session.request import (
    CPU_S_MAX,
    FLAGS_MAX,
    TURN_WORDS,
    WORD_BYTES_MAX,
    WORDS_MAX,
    WORDS_USUAL,
    complaint,
    read_not_run,
    read_request,
    read_used,
    turns_of_request,
)
from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.rate_limit import TURN_BYTES
from lbd.net.gen import lbm_pb2
from lbd.text.command_words import QUEUED_FIELDS_MAX, QUEUED_WORDS_MAX
from lbd.text.job_limits import AFTER_MAX


def body(*pairs):
    return frames.pack_fields([(tags.ARGUMENT, b"true"), *pairs])


def test_a_valid_request():
    found = read_request(body((tags.ENVIRONMENT, b"A=1"), (tags.FLAGS, b"n"), (tags.FLAGS, b"v")))
    assert (found.argv, found.environment, found.flags) == ([b"true"], [b"A=1"], b"nv")


def test_more_words_than_possible():
    """A million of them take no more bytes than a request may have."""
    read_request(body(*[(tags.ARGUMENT, b"")] * (WORDS_MAX - 1)))
    with pytest.raises(ValueError, match=f"more than {WORDS_MAX} fields"):
        read_request(body(*[(tags.ARGUMENT, b"")] * WORDS_MAX))


@pytest.mark.parametrize("kind", [tags.ARGUMENT, tags.ENVIRONMENT])
def test_no_word_is_longer_than_a_kernel_takes(kind):
    read_request(body((kind, b"x" * (WORD_BYTES_MAX - 1))))
    with pytest.raises(ValueError, match="an argument or variable of "):
        read_request(body((kind, b"x" * WORD_BYTES_MAX)))


def test_a_complaint_is_no_longer_than_people_read():
    """What was wrong came back whole: 6 MB of --need."""
    _, said = complaint(ValueError("n" * (6 << 20)), 1)
    assert len(said) < 400


@pytest.mark.parametrize("kind", [tags.ARGUMENT, tags.ENVIRONMENT])
def test_a_queued_job_has_no_more_words_than_take_a_moment_to_read(kind):
    read_queued(body(*[(kind, b"")] * (QUEUED_WORDS_MAX - 1)))
    for words in (QUEUED_WORDS_MAX, QUEUED_FIELDS_MAX):
        with pytest.raises(ValueError, match="from a file, or run it without the queue"):
            read_queued(body(*[(kind, b"")] * words))
    # Those that come last are not read at all.
    with pytest.raises(ValueError, match="from a file, or run it without the queue"):
        read_queued(body(*[(kind, b"")] * QUEUED_FIELDS_MAX) + b"cut short")


def test_a_job_waits_for_no_more_jobs_than_it_may():
    job, options = read_queued(body((tags.AFTER, b" ".join([b"ok:1"] * AFTER_MAX))))
    assert (job.argv, len(options.after)) == ([b"true"], AFTER_MAX)
    with pytest.raises(ValueError, match="more than 1000 jobs to wait for"):
        read_queued(body((tags.AFTER, b" ".join([b"ok:1"] * (AFTER_MAX + 1)))))


def test_flags_that_add_up():
    """Each would be appended to all before it."""
    with pytest.raises(ValueError, match="flags"):
        read_request(body(*[(tags.FLAGS, b"nnnn")] * FLAGS_MAX))


def test_another_host_sends_no_more_words_either():
    request = lbm_pb2.RunRequest(argv=[b""] * (WORDS_MAX + 1))
    assert "argv, environment" in fault_of(request)


def test_what_a_run_has_used():
    pairs = [(tags.CPU, b"1.5"), (tags.STATUS, b"3")]
    assert read_used(frames.pack_fields(pairs)) == Used(1.5, 3)
    for peak, found in ((b"4096", 4096), (b"x", 0), (b"-1", 0), (b"9" * 30, 0)):
        assert read_used(frames.pack_fields([*pairs, (tags.PEAK, peak)])) == Used(1.5, 3, found)


def test_why_a_command_was_not_run():
    pairs = [(tags.STATUS, b"127"), (tags.REASON, b"x: not\nfound")]
    assert read_not_run(frames.pack_fields(pairs)) == NotRun(127, "x: not found")


@pytest.mark.parametrize(
    ("status", "why"), [(b"0", b"x"), (b"256", b"x"), (b"x", b"x"), (b"1", b"")]
)
def test_a_command_that_was_not_run_has_a_status_and_a_reason(status, why):
    with pytest.raises(ValueError, match=r"."):
        read_not_run(frames.pack_fields([(tags.STATUS, status), (tags.REASON, why)]))


@pytest.mark.parametrize("cpu", [b"inf", b"nan", b"-0.1", b"1e308", b"%d" % (CPU_S_MAX + 1)])
def test_what_no_run_can_have_used(cpu):
    """One infinite figure, or an infinite sum of two, hid the accounting of the whole host."""
    with pytest.raises(ValueError, match="out of range"):
        read_used(frames.pack_fields([(tags.CPU, cpu), (tags.STATUS, b"0")]))


@pytest.mark.parametrize("word", [b"", b"x", b"A=1", b"x" * 100])
def test_very_many_words_count_by_their_number(word):
    """A megabyte of short words took half a second of the LBM's event loop, but counted as cheap:
    sixteen such requests at once made every command of other users wait for nine seconds."""
    many = frames.pack_fields([(tags.ARGUMENT, word)] * (WORDS_USUAL + 3200))
    assert turns_of_request(many) - len(many) / TURN_BYTES == pytest.approx(3200 / TURN_WORDS)


def test_the_words_of_ordinary_commands_count_once():
    usual = [(tags.ENVIRONMENT, b"NAME=value")] * (WORDS_USUAL - 10)
    assert turns_of_request(body(*usual)) == 1.0
    assert turns_of_request(body((tags.ENVIRONMENT, b"A=" + b"x" * TURN_BYTES))) < 1.01
