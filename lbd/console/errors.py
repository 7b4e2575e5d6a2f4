"""An error as `--json` has it: its kind, its message and its fix."""

from lbd.errors import ConfigError, Unavailable

SCHEMA = 1


def json_error(kind: str, message: str, fix: str | None) -> str:
    """An error as `--json` has it."""
    import json

    return json.dumps({"schema": SCHEMA, "error": {"kind": kind, "message": message, "fix": fix}})


def kind_of(problem: Exception) -> str:
    """For programs: what to do about it depends on that."""
    if isinstance(problem, ConfigError):
        return "usage"
    if code := getattr(problem, "code", ""):
        return str(code)
    if isinstance(problem, Unavailable):
        return "unavailable"
    return "failed"
