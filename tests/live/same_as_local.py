"""Runs one scenario here and through lbrun on another host, and compares all that a caller can see.

A row is a bash script in which the word `lbrun` stands for a prefix. In the first run it is `env`
under that name, which only executes; in the second it is `lbrun -H h2`. Both runs have the same
directory (emptied in between), environment and standard input. Compared is what the parent sees:
status or signal, standard output, standard error and every file made.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

import pytest
from cluster import Lab
from contract import PYTHON, bounded, kill_tree

LIMIT_S = 40
FAR = "lbrun -H h2"
PY = " ".join(PYTHON)


@dataclass(frozen=True)
class Row:
    """A scenario. `status` is what it gives here, so that a row with a mistake in it fails."""

    name: str
    script: str
    stdin: bytes | None = None  # None: /dev/null, or with `do` a pipe held open
    env: dict[str, str | bytes] = field(default_factory=dict)
    status: int | None = 0  # as the parent sees it: negative for a signal
    do: tuple[str, ...] = ()  # what is done to it while it runs, see `Steps`
    here: str = ""  # the script for here, if options of lbrun must be written otherwise
    own_words: bool = False  # compare the reason of an error only, not the prefix's wording


@dataclass(frozen=True)
class Seen:
    """What a parent sees of a command, and the files the command leaves."""

    status: int | str
    stdout: bytes
    stderr: bytes
    steps: tuple[str, ...]
    files: dict[str, str]


def table(rows):
    """Parametrizes a test by `rows`."""
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})
    return pytest.mark.parametrize("row", rows, ids=names)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Two hosts, and a directory with the `lbrun` that only executes."""
    lab = Lab.up(2)
    lab.plain = tmp_path_factory.mktemp("plain")
    (lab.plain / "lbrun").symlink_to(shutil.which("env"))
    yield lab
    lab.down()


def assert_same(lab, row, root):
    """Runs the row both ways and compares."""
    here = run_here(lab, row, root)
    assert row.status is None or here.status == row.status, f"the row itself is wrong: {here}"
    away = run_away(lab, row, root)
    differences = [
        f"{name}:\n  here {short(mine)}\n  away {short(theirs)}"
        for name in ("status", "stdout", "stderr", "steps", "files")
        if (mine := getattr(here, name)) != (theirs := getattr(away, name))
    ]
    if differences:
        raise AssertionError("\n".join([row.script, *differences]))


def run_here(lab, row, root):
    environment = environment_of(lab, row, {"PATH": f"{lab.plain}:{os.environ['PATH']}"})
    return run(row, row.here or re.sub(r"\blbrun -T\b", "lbrun", row.script), root, environment)


def run_away(lab, row, root):
    return run(row, re.sub(r"\blbrun\b", FAR, row.script), root, environment_of(lab, row, {}))


def environment_of(lab, row, more):
    ours = {**lab.environment("h1"), **more, "LC_ALL": "C.UTF-8", "PYTHON": PY}
    environment = {os.fsencode(k): os.fsencode(v) for k, v in {**ours, **row.env}.items()}
    environment.pop(b"PYTEST_CURRENT_TEST", None)
    return environment


def run(row, script, root, environment):
    """Runs the script in a new directory to its end or the limit, and records the files it made."""
    work = root / "work"
    work.mkdir()
    feed = subprocess.DEVNULL if row.stdin is None and not row.do else subprocess.PIPE
    with subprocess.Popen(
        ["bash", "-c", script], env=environment, cwd=work, stdin=feed, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, process_group=0,
    ) as job:  # fmt: skip
        try:
            status, stdout, stderr, steps = follow(row, job)
        finally:
            kill_tree(job.pid)
    seen = Seen(status, stdout, said(stderr, row.own_words), steps, taken_down(work))
    shutil.rmtree(work)
    return seen


def follow(row, job):
    if row.do:
        steps = Steps(job)
        done = tuple(steps.do(step) for step in row.do)
        return *steps.end(), done
    try:
        stdout, stderr = job.communicate(row.stdin, timeout=LIMIT_S)
        return job.returncode, stdout, stderr, ()
    except subprocess.TimeoutExpired:
        kill_tree(job.pid)
        stdout, stderr = job.communicate()
        return f"no end within {LIMIT_S} s", stdout, stderr, ()


def said(stderr, own_words):
    """Standard error without what must differ: the prefix itself and process numbers."""
    plain = stderr.replace(FAR.encode(), b"lbrun")
    plain = re.sub(rb"(bash: line \d+:) +\d+ ", rb"\1 ", plain)
    if own_words:
        plain = b"".join(line.rpartition(b": ")[2] for line in plain.splitlines(True))
        plain = plain.replace(b"not found\n", b"No such file or directory\n")
    return plain


def taken_down(work):
    """Every file below: its kind, mode and content."""
    found = {}
    for folder, folders, files in os.walk(os.fsencode(work)):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            mode = f"{os.lstat(path).st_mode:o}"
            shown = os.fsdecode(os.path.relpath(path, os.fsencode(work)))
            found[shown] = f"{mode} {contents(path)}"
    return found


def contents(path):
    if os.path.islink(path):
        return os.fsdecode(os.readlink(path))
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as stream:
        text = stream.read()
    return repr(text) if len(text) < 500 else hashlib.sha256(text).hexdigest()


def short(value, most=600):
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


STATES = {"stopped": os.WSTOPPED, "goes": os.WCONTINUED, "ends": os.WEXITED | os.WNOWAIT}


class Steps:
    """Does one step after another to a running command and records the results.

    see TEXT       wait until either output shows TEXT, after what was seen before
    send TEXT      write TEXT and a newline to its input
    close          close its input
    signal NAME    to the process its parent knows; `group NAME`: to its whole process group
    stopped        wait until its parent sees it stopped; `goes on`, `ends`: continued, ended
    """

    def __init__(self, job):
        self.job = job
        self.news = threading.Condition()
        self.text = {"stdout": b"", "stderr": b""}
        self.looked_at = dict.fromkeys(self.text, 0)
        self.readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in self.text
        ]
        for reader in self.readers:
            reader.start()

    def _read(self, name):
        stream = getattr(self.job, name)
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(stream.fileno(), 1 << 16):
                with self.news:
                    self.text[name] += piece
                    self.news.notify_all()

    def do(self, step):
        verb, _, rest = step.partition(" ")
        if verb == "see":
            return self._see(rest.encode())
        if verb in STATES:
            return self._state(verb)
        if verb == "send":
            return self._send(rest.encode() + b"\n")
        if verb == "close":
            self.job.stdin.close()
        elif verb == "signal":
            self.job.send_signal(getattr(signal, f"SIG{rest}"))
        elif verb == "group":
            os.killpg(self.job.pid, getattr(signal, f"SIG{rest}"))
        else:
            raise ValueError(step)
        return step

    def _see(self, text):
        with self.news:
            ok = self.news.wait_for(lambda: self._find(text), LIMIT_S / 2)
        return f"saw {text!r}" if ok else f"did not see {text!r}"

    def _find(self, text):
        for name, found in self.text.items():
            at = found.find(text, self.looked_at[name])
            if at >= 0:
                self.looked_at[name] = at + len(text)
                return True
        return False

    def _send(self, text):
        try:
            self.job.stdin.write(text)
            self.job.stdin.flush()
        except BrokenPipeError:
            return "nobody takes it"
        return f"sent {text!r}"

    def _state(self, verb):
        """Uses waitid, which leaves the end of the process to `wait`."""
        deadline_s = time.monotonic() + LIMIT_S / 4
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline_s:
                if os.waitid(os.P_PID, self.job.pid, STATES[verb] | os.WNOHANG):
                    return verb
                time.sleep(0.01)
        return f"not {verb}"

    def end(self):
        """Closes the input, then waits for the end and the rest of the output."""
        with contextlib.suppress(BrokenPipeError):
            self.job.stdin.close()
        try:
            with bounded(self.job, LIMIT_S / 4):
                status = self.job.wait()
                for reader in self.readers:
                    reader.join()
        except AssertionError:
            status = "no end"
        for reader in self.readers:
            reader.join(LIMIT_S / 4)
        return status, self.text["stdout"], self.text["stderr"]
