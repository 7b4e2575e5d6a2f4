"""How much of a command is shown, and how many words a queued one may have. Pure.

A command may have a quarter of a million words. A list of such jobs would have the dispatcher and a
host's LBM handle every word of each, and a queued job that starts again and again would have them
read each time, while others wait.
"""

from collections.abc import Iterable

SHOWN_WORDS, SHOWN_BYTES = 1000, 16 << 10
CUT = "…".encode()  # the last word of a command that is not shown whole
# Arguments and variables of a job of the queue.
QUEUED_WORDS_MAX = 20_000
# In a request with so many; it may name ten thousand files and a thousand hosts besides.
QUEUED_FIELDS_MAX = 2 * QUEUED_WORDS_MAX
TOO_MANY_WORDS = (
    f"it has more than {QUEUED_WORDS_MAX} arguments and variables, the limit for a job of the "
    "queue: let it read them from a file, or run it without the queue"
)


def shown(command: Iterable[bytes], bytes_max: int = SHOWN_BYTES) -> list[bytes]:
    """Cuts a command to the length that people read. To cut it again changes nothing."""
    kept: list[bytes] = []
    left = bytes_max
    for word in command:
        if left <= 0 or len(kept) == SHOWN_WORDS:
            return [*kept, CUT]
        kept.append(word[:left])
        left -= len(word) + 1
    return kept if left >= -1 else [*kept, CUT]


def shown_of_joined(command: bytes) -> list[bytes]:
    """Does the same with words joined by zero bytes, without a look at those that are left out."""
    return shown(command[: SHOWN_BYTES + 2].split(b"\0", SHOWN_WORDS))
