"""`--status-file`: how the command ended, as JSON, so that 125 is never in doubt."""

import json
import os

from lbd.local import client_tags as tags
from lbd.process.whole_file import write_whole


def write_status(path: str, ended: dict[bytes, str]) -> None:
    """Written whole or not at all. `ended` holds the fields of DONE. Exits nothing on failure:
    the command's own status matters more, so a file that cannot be written is said on stderr.
    """
    signal_number = int(ended.get(tags.SIGNAL_NUMBER, "0"))
    status = {
        "schema": 1,
        "host": ended.get(tags.HOST) or None,
        "exit_status": int(ended[tags.STATUS]),
        "signal": signal_number or None,
        "attempt": int(ended.get(tags.ATTEMPT, "1")),
        "cause": ended[tags.CAUSE],
        "reason": ended.get(tags.REASON) or None,
        "cpu_s": float(ended.get(tags.ENDED_CPU, "0")),
    }
    try:
        write_whole(path, json.dumps(status).encode() + b"\n")
    except OSError as problem:
        os.write(2, f"lbrun: --status-file {path}: {problem.strerror}\n".encode())


def write_failure(path: str, reason: str) -> None:
    """The command never began: this 125 is ours, not the command's."""
    write_status(path, {tags.STATUS: "125", tags.CAUSE: "failed", tags.REASON: reason})
