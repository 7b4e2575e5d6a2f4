"""Phrases with job ids as the subject of a sentence. `lbrun` imports this file, too."""

from collections.abc import Sequence

from lbd.text.one_line import one_line

WORD_CHARS_MAX = 80
NOT_HEARD_OF = "not heard of for"  # begins the reason of a running job whose host is silent
MAY_STILL_RUN = "may still run on"  # likewise, if its host is heard but does not report the job
# These two are in the reason of an attempt whose end nobody has seen: the first begins it.
CONTACT_WITH, NO_LONGER_HAS_IT = "contact with ", " no longer has it: "
HELD = "held"  # begins the reason of a pending job that waits to be released
HELD_FOR_A_WHILE = "held for a while: "  # of one that is tried again later, without a release
STARTING = "starting on "  # begins the reason of a job that waits for nothing more
CANNOT_OPEN = "cannot open the output file"  # begins the reason of a job that therefore never ran
NO_HOST_ACCEPTS = "no host accepts jobs"  # these two begin the reason of a job that no host takes
NO_HOST_SUITS = "no host takes it now"
NOT_THERE = "out of contact", "none has connected"  # which may be over in a moment
BY_USER, BY_USER_OR_HOST = "-x", "-x, or it could not begin there"  # who excluded a host
REFUSES = "which refuses it for now"
NOT_WRITTEN = "so the queue takes no new jobs and begins none"
ENDED_UNRECORDED = "the command has ended; "  # begins the reason of a job whose end is not on disk
RUNS_UNRECORDED = "it runs on "  # begins the reason of a job whose begin is not on disk
OVER_UNRECORDED = "it was ended while it waited; "  # begins that of one that never ran
BEGINS_ONCE = "it begins once "  # begins the reason of one that waits for the ledger
NOT_KNOWN_YET = "not known yet: "  # begins what a forecast lacks
OUTPUT_GONE = "which is no longer in this cluster"  # the host where output was kept
NOT_STORED = "its output is not stored here, or no longer"  # says the host where it was kept
OUTPUT_DROPPED = "its output was removed, because the disk was nearly full"  # the same, of others'
CHILD_WAS = "one of the command's processes was "  # begins what is said of one that ended well
NO_HOST = "no host "  # in the refusal of an id such as h9-1
DISPATCHER = "the dispatcher"  # its entry among the hosts whose jobs are missing from a list
# A job from sbatch is a shell that runs this line, followed by the script's name and its arguments.
LAUNCH_LINE = 'eval "$SBATCH_LAUNCH"'
LAUNCHER = ("/bin/sh", "-c", LAUNCH_LINE)  # unless the script is one of bash
LAUNCHER_WORDS_MAX = 4


def without_launcher(words: Sequence[str]) -> Sequence[str]:
    """Returns the script and its arguments of a job from sbatch; the command of any other job."""
    if LAUNCH_LINE in words[:LAUNCHER_WORDS_MAX]:
        return words[words.index(LAUNCH_LINE) + 1 :]
    return words


def shell_line_remark(command: list[bytes]) -> str:
    """Returns what to say of a command that looks like a line for a shell, given as one word: no
    host will find such a program. "" if it does not look like one."""
    word = command[0].decode(errors="replace") if len(command) == 1 else ""
    program, has_more, _ = word.partition(" ")
    if not (set(word) & set(";|&<>") or (has_more and "/" not in program)):
        return ""
    return (
        f"{one_line(word, WORD_CHARS_MAX)}: taken as the name of one program; lbrun runs a "
        "program; for a shell line, use lbrun sh -c 'LINE'"
    )


def only_together(ids: list[str]) -> str:
    """Returns why jobs with these ids cannot be updated; "" if none of them is a task."""
    task = next((one for one in ids if "_" in one), "")
    if not task:
        return ""
    array = task.partition("_")[0]
    return f"{task}: the tasks of an array can only be changed together; name the array, {array}"


def is_held(reason: str) -> bool:
    """Returns whether a pending job with this reason starts only once it is released."""
    return reason.startswith(HELD) and not reason.startswith(HELD_FOR_A_WHILE)


def is_taken_by_none(reason: str) -> bool:
    """Returns whether a job with this reason is refused by all hosts that it may go to, until their
    hours or rules have changed."""
    if reason.startswith(NO_HOST_ACCEPTS):
        return not any(one in reason for one in NOT_THERE)
    return reason.startswith(NO_HOST_SUITS) or REFUSES in reason


def is_end_unseen(reason: str) -> bool:
    """Returns whether the end on record of an attempt, or a job, with this reason is when it was
    given up: it may have ended long before."""
    return reason.startswith(CONTACT_WITH) or NO_LONGER_HAS_IT in reason


def waits_for_mending(reason: str) -> bool:
    """Returns whether a job with this reason waits for what does not pass by itself, so that its
    user is told of it without asking."""
    return is_taken_by_none(reason) or reason.startswith(BEGINS_ONCE)


def jobs_do(ids: str, does: str = "", do: str = "") -> str:
    """Returns `job 3 waits` or `jobs 1-20 wait`. `does`: the verb for one job, `do`: for
    several."""
    subject, verb = ("jobs", do) if "-" in ids else ("job", does)
    return f"{subject} {ids} {verb}".rstrip()


def refused_for_now(host: str, why: str) -> str:
    """Says that the only host of a job refuses it until other hours. `why`: "" if not known."""
    said = f"it may run only on {host} (-H), {REFUSES}"
    return f"{said}: {why}" if why else said
