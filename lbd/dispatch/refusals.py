"""What it means that a host refuses an attempt, by the stage at which it did. Nothing ran. Pure."""

# Nobody's fault: the host filled up, or the order came too late.
PASSING = ("slot", "drained", "late")
NO_KEEPER = "keeper"  # its keeper is being replaced: the host's fault, and no other job's
# The job wants what this host does not have, or may not be there: no fault of the host's.
# Or it is such that nobody runs it, which its host could not know before.
NOT_THERE = ("exec", "chdir", "directory", "admission", "user", "request")
NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125
ENOENT = 2


def exit_status(stage: str, number: int | None) -> int:
    """Of a job that can begin nowhere; `number`: the errno behind it."""
    if stage != "exec":
        return FAILED
    return NOT_FOUND if number == ENOENT else NOT_EXECUTABLE
