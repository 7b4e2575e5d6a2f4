"""The users of one host, each with a script. Started inside the host, by this file's path:

    python -I -S users.py ORDERS RESULTS

ORDERS is JSON: when to start (CLOCK_MONOTONIC, the same for all hosts), and each user's directory
and commands, as [think time in seconds before it, argv]. RESULTS gets a line for each command that
ended: user, its number, when submitted, response time, where it ran ("" here), exit status, and the
end of its error output if it failed. Runs in one thread, so that measuring adds little load to the
host.
"""

import contextlib
import heapq
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

MOVED = re.compile(r"^lbrun: .*: on (\S+) \(", re.MULTILINE)
SAID_MAX = 4096


class User:
    def __init__(self, number: int, directory: str, lines: list[tuple[float, list[str]]]) -> None:
        self.number = number
        self.directory = directory
        self.lines = lines
        self.done = 0
        self.submitted_s = 0.0

    @property
    def said(self) -> Path:
        return Path(self.directory, "said")

    def submit(self) -> int:
        """Returns the pid."""
        argv = self.lines[self.done][1]
        self.submitted_s = time.monotonic()
        with self.said.open("wb") as errors:
            child = subprocess.Popen(
                argv, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors,
            )  # fmt: skip
        child.returncode = 0  # the loop below waits for all users' commands at once
        return child.pid

    def ended(self, status: int, start_s: float) -> list[object]:
        now_s = time.monotonic()
        said = self.said.read_bytes()[:SAID_MAX].decode(errors="replace")
        moved = MOVED.search(said)
        number, self.done = self.done, self.done + 1
        return [
            self.number, number, round(self.submitted_s - start_s, 6),
            round(now_s - self.submitted_s, 6), moved[1] if moved else "", status,
            said[-200:] if status else "",
        ]  # fmt: skip


def main(orders_path: str, results_path: str) -> int:
    orders = json.loads(Path(orders_path).read_text())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    start_s = orders["start_s"]
    users = [User(number, **one) for number, one in enumerate(orders["users"])]
    thinking = [(start_s + user.lines[0][0], user.number) for user in users if user.lines]
    heapq.heapify(thinking)
    running: dict[int, User] = {}
    with Path(results_path).open("w") as results:
        while thinking or running:
            while thinking and thinking[0][0] <= time.monotonic():
                user = users[heapq.heappop(thinking)[1]]
                running[user.submit()] = user
            wait_s = max(0.0, thinking[0][0] - time.monotonic()) if thinking else 60.0
            signal.sigtimedwait({signal.SIGCHLD}, wait_s)
            for pid, status in ended_children():
                user = running.pop(pid)
                results.write(json.dumps(user.ended(status, start_s)) + "\n")
                if user.done < len(user.lines):
                    think_s = user.lines[user.done][0]
                    heapq.heappush(thinking, (time.monotonic() + think_s, user.number))
    return 0


def ended_children() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
