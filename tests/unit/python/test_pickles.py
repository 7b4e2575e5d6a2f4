"""Calls as bytes: what is sent separately, and what cannot be sent at all."""

import threading

import numpy
import pytest

from lbd.python.failures import NotPicklable, RemoteError
from lbd.python.pickles import (
    DIGESTED_BYTES,
    LARGE_BYTES,
    Digests,
    digest_of,
    pack_call,
    pack_function,
    unpack_arguments,
)
from lbd.python.task_future import exception_of
from lbd.python.worker import raised


def there_and_back(*args, **kwargs):
    packed = pack_call(b"", args, kwargs)
    positional, named = unpack_arguments(
        packed.arguments, lambda digest: bytearray(packed.blobs[digest]), packed.blobs.__getitem__
    )
    return packed, positional, named


def test_small_arguments_are_unchanged():
    packed, positional, named = there_and_back(1, "two", None, {"a": [3]}, four=4.0)
    assert (positional, named) == ([1, "two", None, {"a": [3]}], {"four": 4.0})
    assert not packed.blobs


@pytest.mark.parametrize(
    "large",
    [b"x" * LARGE_BYTES, bytearray(LARGE_BYTES), list(range(LARGE_BYTES))],
    ids=["bytes", "bytearray", "list"],
)
def test_a_large_argument_is_sent_separately(large):
    packed, positional, named = there_and_back(1, large, same=large)
    assert positional == [1, large]
    assert named == {"same": large}
    assert len(packed.arguments) < 1000
    assert len(packed.blobs) == 1


def test_arrays_are_sent_separately_wherever_they_are_and_may_be_written_to():
    array = numpy.arange(LARGE_BYTES, dtype=numpy.int64)
    packed, (found,), _ = there_and_back({"deep": [array]})
    (back,) = found["deep"]
    assert (back == array).all()
    assert len(packed.blobs) == 1
    back[0] = 7


def test_the_name_of_a_blob_depends_on_its_content_and_its_submission():
    array = numpy.zeros(LARGE_BYTES)
    before = pack_call(b"", (array,), {})
    again = pack_call(b"", (array.copy(),), {})
    array[3] = 1.0
    after = pack_call(b"", (array,), {})
    assert before.blobs.keys() == again.blobs.keys()
    assert before.blobs.keys() != after.blobs.keys()
    assert not any(next(iter(before.blobs.values())))


def test_one_map_reads_an_argument_once():
    digests = Digests()
    large = bytearray(LARGE_BYTES)
    one, other = (pack_call(b"", (large,), {}, digests) for _ in range(2))
    (data,), (same,) = one.blobs.values(), other.blobs.values()
    assert data is same


@pytest.mark.parametrize("size", [LARGE_BYTES, DIGESTED_BYTES, 2 * DIGESTED_BYTES + 1])
def test_each_byte_affects_a_digest(size):
    data = bytearray(size)
    found = {digest_of(bytes(data)), digest_of(bytes(data) + b"\0")}
    for at in (0, size // 2, size - 1):
        data[at] = 1
        found.add(digest_of(bytes(data)))
        data[at] = 0
    assert len(found) == 5
    assert digest_of(bytes(data)) in found


def test_an_unpicklable_object_is_reported_in_one_line():
    lock = threading.Lock()
    with pytest.raises(NotPicklable, match=r"^the function <function .*cannot be pickled.*_thread"):
        pack_function(lambda: lock)
    with pytest.raises(NotPicklable, match=r"^the argument <unlocked .* cannot be pickled"):
        pack_call(b"", (lock,), {})
    with pytest.raises(NotPicklable, match=r"^the argument \[<unlocked .* cannot be pickled"):
        pack_call(b"", (1, "two"), {"three": [lock], "four": lock})


class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def test_an_exception_arrives_with_its_traceback_or_as_text():
    def fails():
        raise KeyError("x")

    try:
        fails()
    except KeyError as problem:
        _, payload = raised(problem)
    size = int.from_bytes(payload[:4], "little")
    text = payload[4 : 4 + size].decode()
    found = exception_of(payload[4 + size :], text)
    assert isinstance(found, KeyError)
    assert "in fails" in str(found.__cause__)
    _, payload = raised(Awkward(1, 2))
    size = int.from_bytes(payload[:4], "little")
    awkward = exception_of(payload[4 + size :], payload[4 : 4 + size].decode())
    assert isinstance(awkward, RemoteError)
    assert "Awkward" in str(awkward)
