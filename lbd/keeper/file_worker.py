"""Moves files into and out of a workdir, in a child of the keeper that runs as the user.

    unpack  MAX_BYTES MAX_FILES COUNT PATH…   files sent along, from stdin into the workdir
    pack    MAX_BYTES MAX_FILES COUNT PATH…   files to fetch, to stdout
    collect MAX_BYTES MAX_FILES COUNT PATH…   the same; all of them must exist
    gather  MAX_BYTES MAX_FILES COUNT PATH…   files to send, to stdout, from the origin's directory;
                                              notes of the places of those to fetch, to stderr
    place   MAX_BYTES MAX_FILES COUNT PATH…   fetched files, from stdin; the first PATH is a
                                              number that nobody else uses here; stdout is a file
                                              with the notes, to read
    make    PATH                              the workdir itself
    clear   PATH
    signal  PID STARTED NUMBER TREE           to a process of the user; TREE 1: and its descendants

The first COUNT paths are sent, the rest are fetched. On failure it writes one line on stderr and
exits with the errno behind that, or status 1. `place` also says there what it has put aside.
"""

import os
from contextlib import ExitStack, suppress
from typing import BinaryIO

from lbd.load import process_table
from lbd.pack.clear import clear_away
from lbd.pack.pack import (
    Allowance,
    BadPack,
    Packer,
    Unpacker,
    failure_of,
    naming,
    shown,
)
from lbd.pack.places import note, open_parent, pack_notes, read_notes
from lbd.pack.unpack import Fetching

ABSENT = {b"pack": "", b"collect": "the command did not create it",
          b"gather": "No such file or directory"}  # fmt: skip


def main(words: list[bytes]) -> int:
    """Returns the exit status."""
    if words[0] in (b"make", b"clear"):
        return keep_workdir(*words)
    if words[0] == b"signal":
        return send_signal(*map(int, words[1:]))
    complaint, number = failure_of(lambda: transfer(*words))
    if complaint:
        os.write(2, complaint.encode(errors="replace") + b"\n")
    return number or int(bool(complaint))


def transfer(step: bytes, max_bytes: bytes, max_files: bytes, count: bytes, *paths: bytes) -> None:
    """Raises BadPack, OSError."""
    sent, fetched = [*paths[: int(count)]], [*paths[int(count) :]]
    allowance = Allowance(int(max_bytes), int(max_files))
    if step in ABSENT:
        noted = note([*sent, *fetched]) if step == b"gather" else None
        with open(1, "wb", closefd=False) as output:
            packer = Packer(output, allowance, noted=noted, absent=ABSENT[step])
            packer.pack(sent if step == b"gather" else fetched)
        if noted is not None:
            os.write(2, pack_notes(noted[len(sent) :]))
        return
    with open(0, "rb", closefd=False) as source:
        if step == b"unpack":
            unpack(source, sent, fetched, allowance)
        else:
            mark, *sent = sent
            with open(1, "rb", closefd=False) as notes:
                noted = read_notes(notes.read())
            fetching = Fetching(sent, fetched, int(mark), noted)
            os.write(2, fetching.unpack(source, allowance, all_there=False).encode())


def keep_workdir(step: bytes, path: bytes) -> int:
    """Creates or clears a workdir for an LBM that lacks the permission. The exit status is an
    errno."""
    try:
        if step == b"make":
            os.mkdir(path, 0o700)
        else:
            clear_away(path)
    except OSError as problem:
        return problem.errno or 1
    return 0


def send_signal(pid: int, started_ticks: int, number: int, whole_tree: int) -> int:
    """Signals the process with this number and start time, and no other; also its descendants, as
    far as permitted. Returns an errno as exit status."""
    tree = dict[int, int]()
    if whole_tree:
        everybody = process_table.everybody()
        below = process_table.with_descendants([pid], everybody) - {pid}
        tree = {other: everybody[other].life for other in sorted(below)}
    try:
        process_table.send_signal(pid, started_ticks, number)
    except OSError as problem:
        return problem.errno or 1
    for other, life in tree.items():
        with suppress(OSError):
            process_table.signal_life(other, life, number)
    return 0


def unpack(source: BinaryIO, sent: list[bytes], fetched: list[bytes], allowance: Allowance) -> None:
    """Raises BadPack, OSError."""
    places: dict[int, tuple[int, bytes]] = {}
    with ExitStack() as stack:

        def place(number: int) -> tuple[int, bytes]:
            if number >= len(sent):
                raise BadPack("received more than announced")
            if number not in places:
                parent = open_parent(sent[number], make=True)
                stack.callback(os.close, parent)
                places[number] = parent, os.path.basename(sent[number])
            return places[number]

        result = Unpacker(source, allowance, place, listed=sent).unpack()
    for number in sorted(set(range(len(sent))) - result.arrived):
        raise BadPack(f"{shown(sent[number])} was not received")
    # the command finds the directories it writes to, as it would at the origin
    for path in fetched:
        with naming(path):
            os.close(open_parent(path, make=True))
