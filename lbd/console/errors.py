"""Errors as `--json` shows them: kind, message and fix."""

from lbd.errors import ConfigError, Unavailable

SCHEMA = 1


def json_error(kind: str, message: str, fix: str | None) -> str:
    import json

    return json.dumps({"schema": SCHEMA, "error": {"kind": kind, "message": message, "fix": fix}})


def error_object(kind: str, said: str, *notes: str) -> str:
    """Returns an error as JSON. What follows the last "; " of the message is the fix. `notes`: what
    else there is to say of it."""
    message, found, fix = said.rpartition("; ")
    what, advice = (message, fix) if found else (said, None)
    return json_error(kind, " ".join([what, *(f"({note})" for note in notes)]), advice)


def kind_of(problem: Exception) -> str:
    """Returns the kind by which a program can decide what to do about the error."""
    if isinstance(problem, ConfigError):
        return "usage"
    if code := getattr(problem, "code", ""):
        return str(code)
    if isinstance(problem, Unavailable):
        return "unavailable"
    return "failed"
