"""Jobs of the queue by their ids, as the subject of a sentence. `lbrun` reads this, too."""

NOT_HEARD_OF = "not heard of for"  # of a running job's host, in the job's reason
CANNOT_OPEN = "cannot open the output file"  # so in a job's reason, which never ran then
# What sbatch has run; then the script's name, and its arguments.
LAUNCHER = ("/bin/sh", "-c", 'eval "$SBATCH_LAUNCH"')


def jobs_do(ids: str, does: str = "", do: str = "") -> str:
    """`job 3 waits`, `jobs 1-20 wait`: with the verb for one, and that for several."""
    subject, verb = ("jobs", do) if "-" in ids else ("job", does)
    return f"{subject} {ids} {verb}".rstrip()
