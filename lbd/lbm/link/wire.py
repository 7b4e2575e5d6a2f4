"""The stream between two LBMs: every job that one sends to the other is a conversation on it.

A message is the number of its conversation (4 bytes, little endian; chosen by the origin, never
twice on one stream), a tag byte and a body. Control bodies are the protobuf messages of lbm.proto;
data bodies are the bytes themselves. All jobs share one stream, because opening a gRPC stream costs
more than all the messages of a short command. When it breaks, every job on it has lost its other
end.

Each data direction of a job has a window of its own: what a sender may have under way that the
receiver has not acknowledged as *delivered* (written to the reader's descriptor). It begins with
`FIRST_WINDOW_BYTES`, and acknowledgements grant more (window.py). An acknowledgement wakes four
threads, so one covers several pieces of a long stream. Both ends take every message as it comes, so
a slow reader of one output blocks no other output, no signal and no other job, and memory stays
bounded whatever gRPC buffers underneath.
"""

import signal

# origin -> target
RUN = b"R"  # RunRequest, first
WORKDIR = b"G"  # WorkdirRequest, first: a private directory, which lasts until HANGUP
STDIN = b"0"  # bytes; empty = end of file
SIGNAL = b"S"  # one byte, the signal number
FORCE = b"K"  # kill the whole tree now
HANGUP = b"H"  # nobody waits for it any more: end it; one byte, the signal, or empty: TERM
OUTPUT_GONE = b"g"  # one byte, 1 or 2: nobody reads that output any more
RESIZE = b"W"  # the terminal's new size, as text
MODES = b"M"  # of the caller's terminal; the command's terminal follows, unless it has set its own
GROUND = b"V"  # one byte: 1 the caller is in the background, 0 it is in the foreground again

# target -> origin
QUEUED = b"Q"  # waiting for a slot
REFUSED = b"N"  # Refused, last
STARTED = b"B"  # Started
STDOUT = b"1"  # bytes; empty = end of file
STDERR = b"2"
STDIN_GONE = b"c"  # the command reads no more input
EXITED = b"x"  # one byte, the signal or 0: it has ended, but some of its output is still to come
FAILED = b"F"  # text, last: it may have begun, and its end is unknown
STOPPED = b"T"  # the command has stopped, and continues only on SIGCONT
STILL = b"z"  # text: why the owner of its host suspends it; empty: it continues
SCREEN = b"s"  # the command prints raw output from here on: \n is no longer the end of a line
WANTED = b"w"  # the caller is in the background, and the command waits for standard input
ENDED = b"X"  # Ended, last
LAST = (REFUSED, FAILED, ENDED)

# both ways
# one byte (which stream: 0, 1, 2), the count of bytes delivered, and the window that is granted
# from now on
DELIVERED = b"D"
UNKNOWN = b"?"  # one byte: a tag that was received and is not known here

# Of these only the latest matters
LATEST = frozenset((RESIZE, MODES, GROUND))

# Messages for the input and output of a running command
FOR_ENDS = frozenset((STDIN, DELIVERED, OUTPUT_GONE, RESIZE, MODES, GROUND))

# about the stream itself, both ways, as conversation 0: one of the two LBMs is about to be
# restarted
PAUSE = b"P"  # the last message, until RESUME
PAUSED = b"p"  # the answer, likewise the last: everything sent before PAUSE has arrived
RESUME = b"="  # the first message on the stream that continues another one, and its answer: counts
RESUME_HEADER = "lbd-resume"  # its first message is RESUME
STREAM_HEADER = "lbd-stream"  # metadata: the name of a stream, for resuming it

# several messages in one, as conversation 0: for each its length (4 bytes, little endian) and
# itself
BATCH = b"*"

HEADER_BYTES = 5
BATCH_MAX = 1 << 12  # messages; small ones are gathered to some 16 KiB
LENGTH_BYTES = 4
MESSAGE_LIMIT_BYTES = (16 << 20) + (1 << 16)  # of the largest chunk or request, and its overhead
WINDOW_BYTES = 8 << 20  # the largest
# Before a command reads any of its input, no more than this, plus what its pipe holds, is taken.
# What the command leaves unread is for the next reader of the caller's pipe.
FIRST_WINDOW_BYTES = 1 << 16
ACKNOWLEDGE_SHARE = 4  # part of its window that a receiver takes before it acknowledges
# For a terminal's output, which somebody watches and interrupts: what is under way is still shown.
SCREEN_BYTES = 1 << 17


def pack(conversation: int, tag: bytes, body: bytes = b"") -> bytes:
    return conversation.to_bytes(4, "little") + tag + body


def is_first(message: bytes) -> bool:
    """Whether it begins a conversation."""
    return message[4:HEADER_BYTES] in (RUN, WORKDIR)


def pack_batch(messages: list[bytes]) -> bytes:
    items = [len(item).to_bytes(LENGTH_BYTES, "little") + item for item in messages]
    return pack(0, BATCH, b"".join(items))


def unpack(message: bytes) -> list[tuple[int, bytes, memoryview]]:
    """Returns (conversation, tag, body) of each message in one. Raises ValueError if one is cut
    short.

    The messages of a batch are copies, so that keeping one does not keep the whole batch.
    """
    whole = _unpack_one(memoryview(message))
    if whole[:2] != (0, BATCH):  # so a message of a conversation, kept as it came, is one again
        return [whole]
    view, at = whole[2], 0
    found: list[tuple[int, bytes, memoryview]] = []
    while at < len(view):
        size = int.from_bytes(view[at : at + LENGTH_BYTES], "little")
        at += LENGTH_BYTES
        if at + size > len(view):
            raise ValueError("a batch runs past its end")
        if len(found) == BATCH_MAX:
            raise ValueError(f"a batch of more than {BATCH_MAX} messages")
        found.append(_unpack_one(memoryview(bytes(view[at : at + size]))))
        at += size
    return found


def _unpack_one(view: memoryview) -> tuple[int, bytes, memoryview]:
    if len(view) < HEADER_BYTES:
        raise ValueError("a message without a tag")
    return int.from_bytes(view[:4], "little"), bytes(view[4:5]), view[HEADER_BYTES:]


def counts(sent: int, received: int) -> bytes:
    """Returns the body of RESUME: counts of messages, without those of conversation 0."""
    return sent.to_bytes(8, "little") + received.to_bytes(8, "little")


def read_signal(body: bytes | memoryview) -> int:
    """Returns the signal of HANGUP; 0 if it names none."""
    return body[0] if len(body) == 1 and body[0] < signal.NSIG else 0


def read_counts(body: bytes) -> tuple[int, int]:
    """(sent, received). Raises ValueError on anything else."""
    if len(body) != 16:
        raise ValueError("malformed counts")
    return int.from_bytes(body[:8], "little"), int.from_bytes(body[8:], "little")


def delivered(stream: int, count: int, window_bytes: int) -> bytes:
    """The body of DELIVERED."""
    return bytes((stream,)) + count.to_bytes(8, "little") + window_bytes.to_bytes(8, "little")


def read_delivered(body: bytes) -> tuple[int, int, int]:
    """(stream, count, window that is granted). Raises ValueError on anything else."""
    if len(body) != 17 or body[0] > 2:
        raise ValueError("a malformed acknowledgement")
    return body[0], int.from_bytes(body[1:9], "little"), int.from_bytes(body[9:], "little")
