"""A step of a job: its number, its files, and its share of the job's slots.

Steps with `--exclusive` share the slots among themselves without a daemon: one that has a slot has
a lock of one byte of a file without a name, which each process of the job can open by its first
process. The lock goes through exec with its descriptor, and is gone once the step has ended.
"""

import errno
import fcntl
import os
import struct
import time

from lbd.slurm.options import SlurmError

SCRIPT = "SLURM_LBD_SCRIPT"  # that file, or else the script: /proc/PID/fd/3
TURN = 1 << 40  # far beyond the file's end, as is what follows it: one byte for each slot
LOCK = "hhqqi"  # struct flock
NUMBER = TURN - 1  # the byte whose lock is for counting steps
STEPS_MAX = 1 << 30  # any time from 2004 on is more
LOOK_S = 0.05


def next_number() -> int:
    """Of a step of the job: 0, 1, and so on. The file, which nobody writes to, counts them as its
    time of change; always 0 where it is not its user's."""
    try:
        script = opened()
    except OSError:
        return 0
    try:
        if os.fstat(script).st_uid != os.geteuid():
            return 0
        lock(script, NUMBER, wait=True)
        changed_s = int(os.fstat(script).st_mtime)
        number = changed_s if changed_s < STEPS_MAX else 0
        os.utime(script, (number + 1, number + 1))
        return number
    finally:
        os.close(script)


def take_slots(count: int, slots: int) -> None:
    """Waits until so many of the job's slots are held by no other exclusive step. Raises
    SlurmError."""
    try:
        script = opened()
    except OSError as problem:
        raise SlurmError(f"--exclusive: no file to count its steps: {problem}") from None
    lock(script, TURN, wait=True)  # in turn: two that need several would wait for each other
    held: set[int] = set()
    while True:
        for slot in set(range(1, slots + 1)) - held:
            if len(held) < count and lock(script, TURN + slot):
                held.add(slot)
        if len(held) == count:
            break
        time.sleep(LOOK_S)
    lock(script, TURN, fcntl.F_UNLCK)
    os.set_inheritable(script, True)


def opened() -> int:
    """Raises OSError, also for one with a name: somebody else has put it in place of the job's."""
    file = os.open(os.environ.get(SCRIPT, ""), os.O_RDWR | os.O_CLOEXEC)
    if os.fstat(file).st_nlink:
        os.close(file)
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return file


def lock(file: int, byte: int, kind: int = fcntl.F_WRLCK, *, wait: bool = False) -> bool:
    """Returns whether it was free."""
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    try:
        fcntl.fcntl(file, command, struct.pack(LOCK, kind, os.SEEK_SET, byte, 1, 0))
    except (BlockingIOError, PermissionError):
        return False
    return True


def redirect(values: dict[str, str], name: str, rank: int = 0, *, own: bool | None = None) -> None:
    """To and from the files of -i, -o and -e; errors go with the output unless they have one of
    their own. `own`: only those of this task, or only those of all. Raises SlurmError."""
    mode = values.get("open-mode", "truncate")
    if mode not in ("append", "a", "truncate", "t"):
        raise SlurmError(f"Invalid --open-mode argument: {mode}")
    writing = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode[0] == "a" else os.O_TRUNC)
    for option, flags, descriptors in (
        ("input", os.O_RDONLY, [0]),
        ("output", writing, [1] if "error" in values else [1, 2]),
        ("error", writing, [2]),
    ):
        given = values.get(option, "all")
        if option == "input" and rank and given == "all":
            given = "none"
        if given == "all" or own not in (None, is_own(option, given, name)):
            continue
        path = os.devnull if given == "none" else file_name(option, given, name, rank)
        try:
            file = os.open(path, flags, 0o666)
        except OSError as problem:
            raise SlurmError(f"Could not open {option} file {path}: {problem.strerror}") from None
        for descriptor in descriptors:
            os.dup2(file, descriptor)
        os.close(file)


def is_own(option: str, given: str, name: str) -> bool:
    """Has each task its own? Each reads by itself what there is to read."""
    return option == "input" or len({file_name(option, given, name, rank) for rank in (0, 1)}) > 1


def file_name(option: str, text: str, name: str, rank: int = 0) -> str:
    """Raises SlurmError."""
    job, step = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", "0")
    known = {"%": "%", "t": str(rank), "n": "0", "s": step, "x": name}
    known["N"] = os.environ.get("LBD_HOST", "")
    if job:  # of srun by itself it is not known yet
        known |= {
            "j": job, "J": f"{job}.{step}",
            "A": os.environ.get("SLURM_ARRAY_JOB_ID", job),
            "a": os.environ.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        }  # fmt: skip
    first, *rest = text.replace("%%", "%\0").split("%")
    parts = [first]
    for part in rest:
        letter, after = part[:1].replace("\0", "%"), part[1:]
        if letter not in known:
            raise SlurmError(f"--{option} {text}: %{letter} is not supported by lbd here")
        parts.append(known[letter] + after)
    return "".join(parts)
