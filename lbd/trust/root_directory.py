"""Where root keeps the authority: a directory that nobody else can change or replace."""

import os
import stat
from pathlib import Path

from lbd.errors import ConfigError
from lbd.launch.own_places import first_of_others

OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def check_root_directory(path: Path) -> None:
    """Raises ConfigError unless root alone decides what is found at that path: the directory and
    every directory and link on the way belong to root."""
    try:
        place = first_of_others(f"{path}", (0,))
        found = os.lstat(place) if place else os.stat(path)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem
    if place or found.st_mode & OTHERS_WRITE or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(
            f"{place or path} can be changed by others than root (owner {found.st_uid}, mode "
            f"{stat.S_IMODE(found.st_mode):o}), so the cluster's authority could be replaced; "
            "chown root and chmod go-w it, or set tls.authority_dir"
        )
