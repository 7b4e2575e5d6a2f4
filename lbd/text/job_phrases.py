"""Phrases with job ids as the subject of a sentence. `lbrun` imports this file, too."""

NOT_HEARD_OF = "not heard of for"  # begins the reason of a running job whose host is silent
MAY_STILL_RUN = "may still run on"  # likewise, if its host is heard but does not report the job
CANNOT_OPEN = "cannot open the output file"  # begins the reason of a job that therefore never ran
# The command line of a job from sbatch, followed by the script's name and its arguments.
LAUNCHER = ("/bin/sh", "-c", 'eval "$SBATCH_LAUNCH"')


def only_together(ids: list[str]) -> str:
    """Returns why jobs with these ids cannot be updated; "" if none of them is a task."""
    task = next((one for one in ids if "_" in one), "")
    if not task:
        return ""
    array = task.partition("_")[0]
    return f"{task}: the tasks of an array can only be changed together; name the array, {array}"


def jobs_do(ids: str, does: str = "", do: str = "") -> str:
    """Returns `job 3 waits` or `jobs 1-20 wait`. `does`: the verb for one job, `do`: for
    several."""
    subject, verb = ("jobs", do) if "-" in ids else ("job", does)
    return f"{subject} {ids} {verb}".rstrip()
