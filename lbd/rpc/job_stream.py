"""The messages of one remote job: a tag byte and a body, both ways on one gRPC stream.

Control bodies are the protobuf messages of lbm.proto; data bodies are the bytes themselves.
Each data direction has a window of its own: a sender has at most `WINDOW_BYTES` under way that the
receiver has not acknowledged as *delivered* (written to the reader's descriptor). So a slow reader
of standard output holds back neither standard error nor a signal, and memory stays bounded
whatever gRPC buffers underneath.
"""

# origin -> target
RUN = b"R"  # RunRequest, first
STDIN = b"0"  # bytes; empty = end of file
SIGNAL = b"S"  # one byte, the signal number
FORCE = b"K"  # kill the whole tree now
OUTPUT_GONE = b"g"  # one byte, 1 or 2: nobody reads that output any more

# target -> origin
QUEUED = b"Q"  # waiting for a slot
REFUSED = b"N"  # Refused, last
STARTED = b"B"  # Started
STDOUT = b"1"  # bytes; empty = end of file
STDERR = b"2"
STDIN_GONE = b"c"  # the command reads no more input
ENDED = b"X"  # Ended, last

# both ways: one byte (which stream: 0, 1, 2) and the count of bytes delivered
DELIVERED = b"D"

# several messages in one: for each its length (4 bytes, little endian) and itself
BATCH = b"*"

WINDOW_BYTES = 4 << 20
ACKNOWLEDGE_BYTES = WINDOW_BYTES // 4  # no more often than this


def pack_batch(messages: list[bytes]) -> bytes:
    return BATCH + b"".join([len(item).to_bytes(4, "little") + item for item in messages])


def unpack(message: bytes) -> list[tuple[bytes, memoryview]]:
    """The (tag, body) pairs of a message as it came. Raises ValueError if a batch is cut short."""
    if message[:1] != BATCH:
        return [(message[:1], memoryview(message)[1:])]
    view, at, found = memoryview(message), 1, []
    while at < len(view):
        size = int.from_bytes(view[at : at + 4], "little")
        at += 4
        if size == 0 or at + size > len(view):
            raise ValueError("a batch runs past its end")
        found.append((bytes(view[at : at + 1]), view[at + 1 : at + size]))
        at += size
    return found


def delivered(stream: int, count: int) -> bytes:
    return DELIVERED + bytes((stream,)) + count.to_bytes(8, "little")


def read_delivered(body: bytes) -> tuple[int, int]:
    """(stream, count). Raises ValueError on anything else."""
    if len(body) != 9 or body[0] > 2:
        raise ValueError("a malformed acknowledgement")
    return body[0], int.from_bytes(body[1:], "little")
