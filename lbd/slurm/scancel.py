"""`scancel`: ends jobs, or sends them a signal."""

import getpass
import signal

from lbd.slurm.hostlist import hosts_in
from lbd.slurm.options import Given, Grammar, SlurmError, listed, read, words_of
from lbd.slurm.queue import SELECTOR, act, ids_in, jobs, kept, recent, status_of
from lbd.slurm.squeue import check_filters, of_partition, states_of
from lbd.text.index_list import is_number

GRAMMAR = Grammar(
    words_of("name jobname user state signal clusters partition nodelist"),
    words_of("quiet verbose me full batch help"),
    {"n": "name", "u": "user", "t": "state", "s": "signal", "M": "clusters", "Q": "quiet",
     "v": "verbose", "f": "full", "b": "batch", "p": "partition", "w": "nodelist",
     "A": "account", "q": "qos", "i": "interactive", "H": "hurry", "R": "reservation"},
    words_of("account qos reservation wckey sibling"),
    words_of("interactive hurry ctld cron"),
    # Without them, a list of options would end more than was meant.
    kept=words_of("partition account qos reservation wckey"),
)  # fmt: skip
USAGE = "usage: scancel [-s SIGNAL] [-n NAME] [-u USER | --me] [-t STATE] [ID...]"
IDS_AT_ONCE = 1000  # as many as one question may name


def run(words: list[str]) -> int:
    """Raises SlurmError."""
    given = read(words, GRAMMAR, mixed=True)
    if "help" in given.plain:
        print(USAGE)
        return 0
    check_filters(given)
    number = signal_of(given.values.get("signal", ""))
    if number and "full" in given.plain:
        raise SlurmError("--full is not supported by lbd with --signal: the script alone gets it")
    ids = list(dict.fromkeys(one for word in given.rest for one in ids_in(word)))
    for one in ids:
        if not SELECTOR.fullmatch(one):
            raise SlurmError(f"Invalid job id {one}")
    left_out = 0
    if filters(given):
        ids, left_out = filtered(given, ids)
    elif not ids:
        raise SlurmError("No job identification provided")
    orders = (ids[at : at + IDS_AT_ONCE] for at in range(0, len(ids), IDS_AT_ONCE))
    problems = [problem for some in orders for problem in act("kill", some, signal=number)]
    left = [one for one in problems if "ended" not in one]
    if left:
        raise SlurmError(*(f"Kill job error: {one}" for one in left))
    return status_of(left_out, "scancel", "give the same order again for the rest, or name ids")


def filters(given: Given) -> bool:
    names = {"name", "jobname", "user", "state", "nodelist", "partition"}
    return bool(names & given.values.keys() or "me" in given.plain)


def filtered(given: Given, ids: list[str]) -> tuple[list[str], int]:
    """Returns the jobs to end, and how many more there may be. Raises SlurmError."""
    values = given.values
    names = set(listed(values.get("name", values.get("jobname", ""))))
    users = set(listed(values.get("user", "")))
    users |= {getpass.getuser()} if "me" in given.plain else set()
    hosts, states = (
        set(hosts_in(values.get("nodelist", ""))),
        states_of(values.get("state", ""), ()),
    )
    if not of_partition(values):
        raise SlurmError(f"--partition {values['partition']}: lbd has only the partition lbd")
    tasks = bool(hosts or states)  # otherwise an array is chosen as a whole
    found, left_out = (jobs(ids, tasks=tasks), 0) if ids else recent(users, tasks=tasks)
    found = kept(found, name=names, user=users, host=hosts, state=states)
    return [job.id for job in found if job.is_open], left_out


def signal_of(text: str) -> int:
    """Returns the signal's number; 0: end the job. Raises SlurmError."""
    if not text:
        return 0
    name = text.upper().removeprefix("SIG")
    if is_number(text) and 0 < int(text) <= 64:
        return int(text)
    if f"SIG{name}" not in signal.Signals.__members__:
        raise SlurmError(f"Unknown job signal: {text}")
    return int(signal.Signals[f"SIG{name}"])
