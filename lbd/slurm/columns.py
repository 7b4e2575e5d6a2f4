"""The columns of squeue, by the letters of `-o` and the names of `-O`."""

import re
import time
from collections.abc import Callable

from lbd.slurm.options import PARTITION, SlurmError, listed, width_of
from lbd.slurm.queue import SHORT, Job
from lbd.slurm.times import moment, short_elapsed

NONE = "(null)"
PLACES = 1 << 24  # more than an array has tasks
STATE_ORDER = ["PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
               "NODE_FAIL", "OUT_OF_MEMORY"]  # fmt: skip
NORMAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
SIGN = re.compile(r"%(\.?)([0-9]*)([A-Za-z])")
WIDTH = 20  # default width of a field of -O


def ran_s(job: Job) -> float:
    """Returns the difference of the times as they are shown, in whole seconds, as Slurm has it."""
    if job.started is None:
        return 0.0
    return float(int(job.finished or time.time()) - int(job.started))


def where(job: Job) -> str:
    return job.host if job.state != "PENDING" else f"({job.reason})"


Field = tuple[str, Callable[[Job], str]]
FIELDS: dict[str, Field] = {
    "jobid": ("JOBID", lambda job: job.number),
    "jobarrayid": ("JOBID", lambda job: job.id),
    "arrayjobid": ("ARRAY_JOB_ID", lambda job: job.array),
    "arraytaskid": ("ARRAY_TASK_ID", lambda job: job.index or "N/A"),
    "name": ("NAME", lambda job: job.name),
    "username": ("USER", lambda job: job.user),
    "state": ("STATE", lambda job: job.state),
    "statecompact": ("ST", lambda job: SHORT[job.state]),
    "timeused": ("TIME", lambda job: short_elapsed(ran_s(job))),
    "numnodes": ("NODES", lambda _: "1"),
    "numcpus": ("CPUS", lambda job: str(job.slots)),
    "partition": ("PARTITION", lambda _: PARTITION),
    "reason": ("REASON", lambda job: job.reason),
    "reasonlist": ("NODELIST(REASON)", where),
    "nodelist": ("NODELIST", lambda job: job.host),
    "submittime": ("SUBMIT_TIME", lambda job: moment(job.submitted, "N/A")),
    "starttime": ("START_TIME", lambda job: moment(job.started, "N/A")),
    "endtime": ("END_TIME", lambda job: moment(job.finished, "N/A")),
    "prioritylong": ("PRIORITY", lambda job: str(job.priority)),
    "exit_code": ("EXIT_CODE", lambda job: str(job.exit_status)),
    "command": ("COMMAND", lambda job: "".join(job.program)),
    "dependency": (
        "DEPENDENCY",
        lambda job: job.raw_reason if job.reason == "Dependency" else NONE,
    ),
    "mincpus": ("MIN_CPUS", lambda job: str(job.slots)),
    "account": ("ACCOUNT", lambda _: NONE),
    "qos": ("QOS", lambda _: NONE),
    "priority": ("PRIORITY", lambda job: str(job.priority)),
    "nice": ("NICE", lambda job: str(-job.priority)),
    "oversubscribe": ("OVER_SUBSCRIBE", lambda _: "OK"),
    "reservation": ("RESERVATION", lambda _: NONE),
    "wckey": ("WCKEY", lambda _: NONE),
}
DETAILED: dict[str, Field] = {
    "timelimit": ("TIME_LIMIT", lambda job: limit_of(job)),
    "timeleft": ("TIME_LEFT", lambda job: limit_of(job, ran_s(job))),
    "minmemory": ("MIN_MEMORY", lambda job: memory_of(job)),
    "tres-per-node": ("TRES_PER_NODE", lambda job: resources_of(job)),
    "feature": ("FEATURES", lambda job: features_of(job)),
    "workdir": ("WORK_DIR", lambda job: job.directory or "N/A"),
    "stdout": ("STDOUT", lambda job: job.output or "N/A"),
    "stderr": ("STDERR", lambda job: job.error or "N/A"),
}
ALL = FIELDS | DETAILED
LETTERS = {
    "i": "jobarrayid", "A": "jobid", "F": "arrayjobid", "K": "arraytaskid", "j": "name",
    "u": "username", "t": "statecompact", "T": "state", "M": "timeused", "D": "numnodes",
    "C": "numcpus", "P": "partition", "r": "reason", "R": "reasonlist", "N": "nodelist",
    "B": "nodelist", "V": "submittime", "S": "starttime", "e": "endtime", "Q": "prioritylong",
    "o": "command", "l": "timelimit", "L": "timeleft", "m": "minmemory", "b": "tres-per-node",
    "f": "feature", "E": "dependency", "Z": "workdir", "c": "mincpus", "a": "account", "q": "qos",
    "p": "priority", "y": "nice", "h": "oversubscribe", "v": "reservation", "w": "wckey",
}  # fmt: skip
ORDER: dict[str, Callable[[Job], float]] = {  # of --sort, where it is not the text's
    "i": lambda job: place(job), "A": lambda job: place(job), "F": lambda job: int(job.array),
    "K": lambda job: place(job) % 1, "t": lambda job: STATE_ORDER.index(job.state),
    "T": lambda job: STATE_ORDER.index(job.state), "M": lambda job: ran_s(job),
    "S": lambda job: job.started or float("inf"), "e": lambda job: job.finished or float("inf"),
    "V": lambda job: job.submitted, "C": lambda job: job.slots, "Q": lambda job: job.priority,
    "p": lambda job: job.priority, "l": lambda job: job.limit_s or float("inf"),
}  # fmt: skip


class Columns:
    """Fields with their widths, and the texts between them."""

    def __init__(self, parts: list[tuple[str, str, int, bool]], end: str = "") -> None:
        """`parts`: the text before a field, its name, its width (0: that of its content), and
        whether it is at the right."""
        self.parts, self.end = parts, end

    @property
    def need_details(self) -> bool:
        return any(name in DETAILED for _, name, _, _ in self.parts)

    def line(self, job: Job | None) -> str:
        """Returns a job's line, or the headings for None."""
        cells = [
            before + cell(ALL[name], job, size, right=right)
            for before, name, size, right in self.parts
        ]
        return "".join(cells) + self.end


def by_letters(text: str) -> Columns:
    """Raises SlurmError."""
    parts, done = [], 0
    for found in SIGN.finditer(text):
        dot, width, letter = found.groups()
        if letter not in LETTERS:
            known = " ".join(f"%{one}" for one in sorted(LETTERS))
            raise SlurmError(f"--format: %{letter} is not supported by lbd; it has {known}")
        size = width_of(width, f"--format: %{width}{letter}")
        parts.append((text[done : found.start()], LETTERS[letter], size, bool(dot)))
        done = found.end()
    return Columns(parts, text[done:])


def by_names(text: str) -> Columns:
    """Raises SlurmError."""
    parts = []
    for one in listed(text):
        name, _, width = one.partition(":")
        if name.lower() not in ALL:
            known = ", ".join(ALL)
            raise SlurmError(f"--Format: field {name} is not supported by lbd; it has {known}")
        size = width_of(width.removeprefix("."), f"--Format: {one}") or WIDTH
        parts.append(("", name.lower(), size, width.startswith(".")))
    return Columns(parts)


def in_order(found: list[Job], text: str) -> list[Job]:
    """Returns the jobs in the order of --sort, such as `-t,i`. Raises SlurmError."""
    for one in reversed(list(listed(text))):
        letter = one.lstrip("+-")
        if letter not in LETTERS:
            raise SlurmError(f"--sort {text}: {one} is not supported by lbd")
        _, value = ALL[LETTERS[letter]]
        found = sorted(found, key=ORDER.get(letter, value), reverse=one.startswith("-"))
    return found


def by_details(order: str) -> bool:
    return any(LETTERS.get(one.lstrip("+-")) in DETAILED for one in listed(order))


def place(job: Job) -> float:
    """Returns a number that orders jobs, and the tasks of one, by their ids."""
    return int(job.array) + int(job.index.partition("-")[0].partition(",")[0] or 0) / PLACES


def limit_of(job: Job, ran: float = 0.0) -> str:
    if not job.has_details:
        return "N/A"
    return short_elapsed(job.limit_s - ran) if job.limit_s else "UNLIMITED"


def memory_of(job: Job) -> str:
    return f"{job.memory_bytes >> 20}M" if job.has_details else "N/A"


def resources_of(job: Job) -> str:
    resources = job.needs.get("resources")
    if not isinstance(resources, dict) or not resources:
        return "N/A"
    return ",".join(f"gres/{name}:{count}" for name, count in resources.items())


def features_of(job: Job) -> str:
    features = job.needs.get("features")
    return "&".join(map(str, features)) if isinstance(features, list) and features else NONE


def cell(field: Field, job: Job | None, size: int, *, right: bool) -> str:
    title, value = field
    text = (title if job is None else value(job))[: size or None]
    return text.rjust(size) if right else text.ljust(size)
