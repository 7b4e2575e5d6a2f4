"""`--status-file`: how the command ended, as JSON, so that a status of 125 is unambiguous."""

import json
import os

from lbd.local import client_tags as tags
from lbd.process.whole_file import write_whole


def write_status(path: str, ended: dict[bytes, str]) -> None:
    """Writes the file atomically. `ended` holds the fields of DONE. A failure is only reported on
    stderr: the command's own status matters more.
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
    """Writes the status of a command that never began: this 125 is lbrun's, not the command's."""
    write_status(path, {tags.STATUS: "125", tags.CAUSE: "failed", tags.REASON: reason})
