"""Phrases with job ids as the subject of a sentence. `lbrun` imports this file, too."""

NOT_HEARD_OF = "not heard of for"  # begins the reason of a running job whose host is silent
CANNOT_OPEN = "cannot open the output file"  # begins the reason of a job that therefore never ran
# The command line of a job from sbatch, followed by the script's name and its arguments.
LAUNCHER = ("/bin/sh", "-c", 'eval "$SBATCH_LAUNCH"')


def jobs_do(ids: str, does: str = "", do: str = "") -> str:
    """Returns `job 3 waits` or `jobs 1-20 wait`. `does`: the verb for one job, `do`: for
    several."""
    subject, verb = ("jobs", do) if "-" in ids else ("job", does)
    return f"{subject} {ids} {verb}".rstrip()
