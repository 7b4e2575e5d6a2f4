"""Functions, arguments and results as bytes, with large arguments apart from the rest.

A blob is a large buffer within the arguments (NumPy arrays, and anything else that offers its
memory to pickle protocol 5), or a large argument as a whole. It is named by the digest of its
content, so the same array in a thousand tasks, or in tasks submitted one by one, is one blob.

    arguments = pickled list of the buffers' digests | pickled (names, values), which refers to
                those buffers; an argument that is a blob as a whole is an `Apart`
"""

import io
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import cast

from lbd.errors import LbdError
from lbd.python.failures import NotPicklable
from lbd.python.wire import DIGEST_BYTES
from lbd.text.install_line import lacks
from lbd.text.one_line import one_line

LARGE_BYTES = 1 << 20
DIGESTED_BYTES = 8 << 20  # hashed in one piece
SHOWN_CHARS = 60
NO_BUFFERS = pickle.dumps([], pickle.HIGHEST_PROTOCOL)
PLAIN = frozenset({int, float, complex, bool, type(None)})
SHORT_CHARS = 4096

Function = Callable[..., object]  # type: ignore[explicit-any]  # any callable of the user's
Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Apart:
    """Stands for an argument that is a blob: the bytes object itself, or the argument's pickle."""

    digest: bytes
    is_pickle: bool


@dataclass(slots=True)
class Packed:
    """A call, packed into bytes."""

    function: bytes
    arguments: bytes
    blobs: dict[bytes, bytes] = field(default_factory=dict)  # by digest


class Digests:
    """Digests and copies of the buffers of one `submit` or `map`; each is read only once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes, bytes]] = {}
        self.pickles: dict[int, tuple[object, bytes]] = {}  # of values whose pickle is a blob

    def of(self, owner: object, content: Buffer) -> tuple[bytes, bytes]:
        """Returns the digest and an immutable copy. `owner` is the object that has the content."""
        if (known := self._known.get(id(owner))) is not None:
            return known[1], known[2]
        data = content if type(content) is bytes else bytes(content)
        digest = digest_of(data)
        self._known[id(owner)] = owner, digest, data
        return digest, data


def digest_of(data: bytes) -> bytes:
    """Returns the digest of a large blob as that of its pieces' digests, computed on all cores."""
    if len(data) <= DIGESTED_BYTES:
        return sha256(data).digest()[:DIGEST_BYTES]
    view = memoryview(data)
    pieces = [view[at : at + DIGESTED_BYTES] for at in range(0, len(data), DIGESTED_BYTES)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        found = list(threads.map(lambda piece: sha256(piece).digest(), pieces))
    return sha256(b"".join(found)).digest()[:DIGEST_BYTES]


def pack_function(function: Function) -> bytes:
    """Raises NotPicklable."""
    try:
        return dumps(function)
    except LbdError:
        raise
    except Exception as problem:  # pickling may run arbitrary code
        raise cannot("the function", function, problem) from None


def dumps(value: object, buffers: Callable[[pickle.PickleBuffer], bool] | None = None) -> bytes:
    if type(value) is type(len):  # a function written in C is pickled by its name
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    try:
        from cloudpickle import CloudPickler
    except ImportError:
        raise LbdError(lacks("lbd.Executor", ["cloudpickle"])) from None
    file = io.BytesIO()
    CloudPickler(file, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers).dump(value)
    return file.getvalue()


def is_plain(value: object) -> bool:
    """Returns whether the value is small and needs only pickle, which is much faster."""
    kind = type(value)
    return kind in PLAIN or (kind in (str, bytes) and len(cast("str", value)) < SHORT_CHARS)


def pack_call(
    function: bytes,
    args: Sequence[object],
    kwargs: dict[str, object],
    digests: Digests | None = None,
) -> Packed:
    """Raises NotPicklable."""
    values = [*args, *kwargs.values()]
    call = tuple(kwargs), values
    if all(map(is_plain, values)):
        return Packed(function, NO_BUFFERS + pickle.dumps(call, pickle.HIGHEST_PROTOCOL))
    try:
        return Blobs(digests or Digests()).pack(function, *call)
    except LbdError:
        raise
    except Exception as problem:  # as above
        raise cannot("the argument", first_unpicklable(values), problem) from None


def first_unpicklable(values: Sequence[object]) -> object:
    """Returns the last one if each can be pickled, but not all together."""
    for value in values:
        try:
            dumps(value)
        except Exception:  # pickling may run arbitrary code
            return value
    return values[-1]


class Blobs:
    """Packs one call, setting its large parts apart."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests
        self._blobs: dict[bytes, bytes] = {}
        self._buffers: list[bytes] = []

    def pack(self, function: bytes, names: tuple[str, ...], values: list[object]) -> Packed:
        values = [self._bytes_apart(value) for value in values]
        body = dumps((names, values), self._is_small)
        # a large value without a buffer, such as a list of a million numbers
        if len(body) >= LARGE_BYTES:
            self._buffers = []
            body = dumps((names, [self._pickle_apart(v) for v in values]), self._is_small)
        head = pickle.dumps(self._buffers, pickle.HIGHEST_PROTOCOL)
        return Packed(function, head + body, self._blobs)

    def _set_apart(self, owner: object, content: Buffer) -> bytes:
        digest, data = self._digests.of(owner, content)
        self._blobs[digest] = data
        return digest

    def _is_small(self, buffer: pickle.PickleBuffer) -> bool:
        """Returns whether the buffer stays in the pickle; if not, it is set apart."""
        try:
            view = buffer.raw()
        except BufferError:  # not contiguous
            return True
        with view:
            if view.nbytes < LARGE_BYTES:
                return True
            self._buffers.append(self._set_apart(view.obj, view))
        return False

    def _bytes_apart(self, value: object) -> object:
        if type(value) is bytes and len(value) >= LARGE_BYTES:
            return Apart(self._set_apart(value, value), is_pickle=False)
        if id(value) in self._digests.pickles:
            return self._pickle_apart(value)
        return value

    def _pickle_apart(self, value: object) -> object:
        if is_plain(value) or type(value) is Apart:
            return value
        _, data = self._digests.pickles.get(id(value)) or (value, dumps(value))
        if len(data) < LARGE_BYTES:
            return value
        self._digests.pickles[id(value)] = value, data
        return Apart(self._set_apart(data, data), is_pickle=True)


def unpack_arguments(
    arguments: bytes, open_blob: Callable[[bytes], Buffer], read_blob: Callable[[bytes], bytes]
) -> tuple[list[object], dict[str, object]]:
    """Returns the positional and the named arguments. Blobs are found by digest: `open_blob`
    returns memory that an object may hold on to, `read_blob` returns bytes."""
    file = io.BytesIO(arguments)
    buffers = [open_blob(digest) for digest in pickle.load(file)]  # noqa: S301  # the user's own
    names, values = pickle.load(file, buffers=buffers)  # noqa: S301
    values = [whole(value, read_blob) if type(value) is Apart else value for value in values]
    count = len(values) - len(names)
    return values[:count], dict(zip(names, values[count:], strict=True))


def whole(apart: Apart, read_blob: Callable[[bytes], bytes]) -> object:
    content = read_blob(apart.digest)
    return pickle.loads(content) if apart.is_pickle else content  # noqa: S301


def cannot(what: str, value: object, problem: Exception) -> NotPicklable:
    why = one_line(str(problem)) or type(problem).__name__
    return NotPicklable(
        f"{what} {shown(value)} cannot be pickled, so it cannot be sent to a worker: {why}"
    )


def shown(value: object) -> str:
    try:
        return one_line(repr(value), SHOWN_CHARS)
    except Exception:  # its `__repr__` may raise anything
        return type(value).__name__
