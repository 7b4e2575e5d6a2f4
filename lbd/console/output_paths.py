"""Where a queued job's files are: those of `-o` and `--error`, and what `--fetch` brings back."""

import os

from lbd.console.reply import Json, text, texts
from lbd.model import ENDED_NAMES
from lbd.text.name_patterns import fill_in


def own_file(pattern: str, job: Json) -> str:
    """Returns the name of a job's own file; for an array, the pattern itself."""
    if text(job, "array"):
        return pattern
    index, host = job.get("array_index"), text(job, "host") or "%h"
    own = index if isinstance(index, int) else None
    return os.fsdecode(fill_in(os.fsencode(pattern), text(job, "id"), own, host))


def path_of(pattern: str, job: Json) -> str:
    """Returns the path of a job's own file in the end; for one in a directory of the job's own that
    does not come back, only the name."""
    own = own_file(pattern, job)
    if directory := text(job, "directory"):
        return os.path.join(directory, own)
    return os.path.join(text(job, "submitted_in"), own) if comes_back(pattern, job) else own


def comes_back(pattern: str, job: Json) -> bool:
    """Returns whether `--fetch` names this file, or a directory above it."""
    path = os.path.normpath(own_file(pattern, job))
    fetched = [os.path.normpath(own_file(name, job)) for name in texts(job, "fetch")]
    return any(path == one or path.startswith(f"{one}/") for one in fetched)


def is_in_place(pattern: str, job: Json) -> bool:
    """Returns whether the file has its path already: not before it has come back."""
    if text(job, "directory") or os.path.isabs(pattern):
        return True
    has_ended = text(job, "state") in ENDED_NAMES and job.get("fetched") is not False
    return has_ended and comes_back(pattern, job)


def fetch_paths(job: Json) -> list[str]:
    """Returns where the outputs of `--fetch` are put, on the host where the job was submitted."""
    directory = text(job, "submitted_in")
    return [
        os.path.normpath(os.path.join(directory, own_file(name, job)))
        for name in texts(job, "fetch")
    ]
