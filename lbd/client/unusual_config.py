"""Settings of lbd.toml that need a TOML parser: `host.runtime_dir` in an unusual notation, and the
user's own `eligibility.never`."""

import os
import tomllib

from lbd.client.complaints import Trouble


def runtime_dir_of(path: bytes) -> str:
    """Returns `host.runtime_dir` of that file. Raises Trouble."""
    found = section_of(path, "host").get("runtime_dir")
    if not isinstance(found, str):
        raise Trouble(f"{os.fsdecode(path)}: host.runtime_dir is not a string")
    return found


def never_leaves(path: bytes, command: list[bytes]) -> bool:
    """Returns whether `eligibility.never` of that file names the command. Raises Trouble."""
    from lbd.policy.invocation import key_of, name_of
    from lbd.text.program_names import in_list

    entries = section_of(path, "eligibility").get("never", [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise Trouble(f"{os.fsdecode(path)}: eligibility.never is not a list of names")
    return in_list(tuple(entries), name_of(command), key_of(command))


def section_of(path: bytes, name: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file).get(name, {})
    except (OSError, ValueError, RecursionError) as problem:
        raise Trouble(f"{os.fsdecode(path)}: {problem}") from None
    return found if isinstance(found, dict) else {}
