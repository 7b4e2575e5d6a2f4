"""A step of a job: its number, its files, and its share of the job's slots.

Steps with `--exclusive` share the slots among themselves without a daemon: a step that has a slot
holds a lock on one byte of an unnamed file, which each process of the job can open through the
job's first process. Exec keeps the lock with its descriptor, and it is released when the step has
ended.
"""

import errno
import fcntl
import os
import struct
import time

from lbd.slurm.options import SlurmError

SCRIPT = "SLURM_LBD_SCRIPT"  # that file, or else the script: /proc/PID/fd/3
TURN = 1 << 40  # far beyond the file's end, like the bytes after it: one for each slot
LOCK = "hhqqi"  # struct flock
NUMBER = TURN - 1  # this byte's lock protects the step counter
STEPS_MAX = 1 << 30  # every time since 2004 is larger
LOOK_S = 0.05


def next_number() -> int:
    """Returns the number of a new step of the job: 0, 1, and so on. The counter is the modification
    time of the file, which nobody writes to. Returns 0 if the file is not its user's."""
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
    """Waits until `count` of the job's slots are not held by other exclusive steps, and takes them.
    Raises SlurmError."""
    try:
        script = opened()
    except OSError as problem:
        raise SlurmError(f"--exclusive: no file to count its steps: {problem}") from None
    lock(script, TURN, wait=True)  # one at a time: two steps that need several slots could deadlock
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
    """Opens the file. Raises OSError, also if it has a name: then somebody else has replaced the
    job's."""
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
    """Redirects to and from the files of -i, -o and -e; errors go to the output's file unless -e is
    given. `own`: True for this task's own files only, False for the shared ones only. Raises
    SlurmError."""
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
    """Returns whether each task opens its own file. For input each always does."""
    return option == "input" or len({file_name(option, given, name, rank) for rank in (0, 1)}) > 1


def file_name(option: str, text: str, name: str, rank: int = 0) -> str:
    """Raises SlurmError."""
    job, step = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", "0")
    known = {"%": "%", "t": str(rank), "n": "0", "s": step, "x": name}
    known["N"] = os.environ.get("LBD_HOST", "")
    if job:  # not known yet for an srun outside a job
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
