"""Frames and job stream messages: what was packed is read back; garbage is refused, not obeyed."""

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.lbm.link import wire as job_stream
from lbd.lbm.session.request import read_request
from lbd.local import client_tags as tags
from lbd.local import frames

TAG = st.binary(min_size=1, max_size=1)
LIMIT_BYTES = 1000


@given(
    st.lists(st.tuples(TAG, st.binary(max_size=50)), max_size=8),
    st.lists(st.integers(1, 20), max_size=40),
)
def test_frames_survive_any_fragmentation(messages, cuts):
    stream = b"".join(frames.pack(tag, body) for tag, body in messages)
    split, found, at = frames.Splitter(LIMIT_BYTES), [], 0
    for cut in [*cuts, len(stream)]:
        found += split.feed(stream[at : at + cut])
        at += cut
    assert found == messages


def test_a_frame_over_the_limit_is_refused_before_it_is_read():
    split = frames.Splitter(LIMIT_BYTES)
    with pytest.raises(ValueError, match="limit is 1000"):
        split.feed((LIMIT_BYTES + 1).to_bytes(4, "little") + b"R")


@given(st.lists(st.tuples(TAG, st.binary(max_size=50)), max_size=8))
def test_fields(pairs):
    assert frames.fields(b"".join(frames.field(*pair) for pair in pairs)) == pairs


@given(st.binary(max_size=60))
def test_garbage_in_a_body_is_a_value_error_or_fields(body):
    try:
        found = frames.fields(body)
    except ValueError:
        return
    assert b"".join(frames.field(*pair) for pair in found) == body


@given(st.binary(max_size=80))
def test_garbage_as_a_request_is_a_value_error_or_a_command(body):
    with contextlib.suppress(ValueError):
        assert read_request(body).argv


PARTS = st.tuples(st.integers(0, (1 << 32) - 1), TAG.filter(lambda tag: tag != b"*"), st.binary())


@given(st.lists(PARTS, min_size=2, max_size=6))
def test_batches(parts):
    found = job_stream.unpack(job_stream.pack_batch([job_stream.pack(*part) for part in parts]))
    assert [(number, tag, bytes(body)) for number, tag, body in found] == parts


@given(st.binary(max_size=40))
def test_a_garbled_batch_is_a_value_error_or_messages(body):
    try:
        found = job_stream.unpack(job_stream.pack(0, job_stream.BATCH, body))
    except ValueError:
        return
    assert all(len(tag) == 1 for _, tag, _ in found)


@given(PARTS)
def test_a_message_alone(part):
    ((number, tag, body),) = job_stream.unpack(job_stream.pack(*part))
    assert (number, tag, bytes(body)) == part


@given(st.integers(0, 2), st.integers(0, 1 << 60), st.integers(0, 1 << 60))
def test_acknowledgements(stream, count, window_bytes):
    body = job_stream.delivered(stream, count, window_bytes)
    assert job_stream.read_delivered(body) == (stream, count, window_bytes)


def test_unknown_keys_of_a_newer_client_are_skipped():
    body = frames.field(tags.ARGUMENT, b"true") + frames.field(b"?", b"from the future")
    assert read_request(body).argv == [b"true"]


def constants(module, section):
    """Returns names and one-byte values below this comment, up to the next blank line."""
    _, _, rest = Path(module.__file__).read_text().partition(f"\n# {section}")
    return re.findall(r'^([A-Z_]+) = (b".")', rest.partition("\n\n")[0], re.MULTILINE)


@pytest.mark.parametrize(
    ("module", "sections"),
    [
        (job_stream, ["origin -> target", "target -> origin", "both ways", "several messages"]),
        (tags, ["client -> LBM"]),  # the answers follow without a blank line
        (tags, ["Keys of RUN"]),
        (tags, ["Keys of HERE"]),
    ],
)
def test_no_two_constants_share_a_tag(module, sections):
    found = [pair for section in sections for pair in constants(module, section)]
    assert len(found) > 3
    assert len({value for _, value in found}) == len(found), found


def test_a_frame_that_arrives_byte_by_byte_is_not_copied_for_each_byte():
    """That once took a whole core: the buffer was copied for every byte of a large frame."""
    stream = frames.pack(b"R", bytes(200_000))
    split = frames.Splitter(1 << 20)
    found = [frame for at in range(len(stream)) for frame in split.feed(stream[at : at + 1])]
    assert found == [(b"R", bytes(200_000))]


def test_a_batch_of_more_messages_than_are_ever_collected():
    with pytest.raises(ValueError, match="more than 4096"):
        job_stream.unpack(job_stream.pack_batch([job_stream.pack(1, b"S")] * 5000))


def test_of_many_frames_a_few_at_a_time_are_taken_and_the_rest_stays():
    split, pack = frames.Splitter(100), frames.pack
    whole = pack(b"a", b"1") * 5
    assert split.feed(whole + pack(b"b", b"22")[:-1], 2) == [(b"a", b"1")] * 2
    assert len(split.rest) == len(whole) * 3 // 5 + 6
    assert split.feed(b"", 2) == [(b"a", b"1")] * 2
    assert split.feed(b"", 2) == [(b"a", b"1")]
    assert split.feed(b"", 2) == []
    assert split.feed(b"2", 2) == [(b"b", b"22")]
    assert split.feed(b"", 2) == []
    assert split.rest == b""
