"""In a child that is about to become a command, where the owner has rules for programs."""

import os

from lbd.lbm.admission import program_fault
from lbd.lbm.launch import DEFAULT_PATH
from lbd.lbm.look import find_program


def real_program(name: bytes, path: bytes = DEFAULT_PATH) -> bytes:
    """What exec would run, links resolved; b"" if it would find nothing."""
    if b"/" in name:
        return os.path.realpath(name) if find_program(name, b"") == 0 else b""
    for directory in path.split(b":"):
        candidate = (directory or b".") + b"/" + name
        if find_program(candidate, b"") == 0:
            return os.path.realpath(candidate)
    return b""


def rule_against(program: bytes, allowed: list[str], denied: list[str]) -> str:
    """The rule that forbids it, "" if none does."""
    fault = program_fault(os.fsdecode(program), tuple(allowed), tuple(denied))
    return f"admission.{fault}" if fault else ""
