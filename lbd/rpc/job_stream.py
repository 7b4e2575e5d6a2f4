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

WINDOW_BYTES = 4 << 20


def delivered(stream: int, count: int) -> bytes:
    return DELIVERED + bytes((stream,)) + count.to_bytes(8, "little")


def read_delivered(body: bytes) -> tuple[int, int]:
    """(stream, count). Raises ValueError on anything else."""
    if len(body) != 9 or body[0] > 2:
        raise ValueError("a malformed acknowledgement")
    return body[0], int.from_bytes(body[1:], "little")
