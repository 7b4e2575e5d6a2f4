"""Adds the inputs that reach new code to a target's corpus: `keep.py TARGET DIRECTORY`.

It tries the smallest first, and compares pairs of lines of lbd/ executed one after the other.
(libFuzzer's own merge restarts its program, which does not work for a Python program.)
"""

import contextlib
import hashlib
import sys
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
PACKAGE = str(ROOT / "lbd")
KEPT_MAX = 60  # of one target
BYTES_MAX = 2048


def steps_of(name: str, data: bytes) -> set[tuple[str, int, int]]:
    """The pairs of lines that followed one another."""
    steps: set[tuple[str, int, int]] = set()
    last: dict[int, int] = {}

    def trace(frame: FrameType, event: str, _: object):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            steps.add((frame.f_code.co_filename, last.get(id(frame), 0), frame.f_lineno))
            last[id(frame)] = frame.f_lineno
        return trace

    sys.settrace(trace)
    with contextlib.suppress(Exception):
        TARGETS[name](data)
    sys.settrace(None)
    return steps


def main(name: str, directory: str) -> None:
    corpus = CORPUS / name
    known = [path.read_bytes() for path in corpus.iterdir()]
    reached = set().union(*(steps_of(name, data) for data in known))
    found = sorted({path.read_bytes() for path in Path(directory).iterdir()}, key=len)
    for data in found:
        if len(known) >= KEPT_MAX or len(data) > BYTES_MAX:
            break
        steps = steps_of(name, data)
        if not steps <= reached:
            reached |= steps
            known.append(data)
            (corpus / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
