"""`host.runtime_dir` where it is written in a way that takes a TOML parser to read."""

import os
import tomllib

from lbd.client.complaints import Trouble


def runtime_dir_of(path: bytes) -> str:
    """Returns `host.runtime_dir` of that file. Raises Trouble."""
    try:
        with open(path, "rb") as file:
            host = tomllib.load(file).get("host")
    except (OSError, ValueError, RecursionError) as problem:
        raise Trouble(f"{os.fsdecode(path)}: {problem}") from None
    found = host.get("runtime_dir") if isinstance(host, dict) else None
    if not isinstance(found, str):
        raise Trouble(f"{os.fsdecode(path)}: host.runtime_dir is not a string")
    return found
