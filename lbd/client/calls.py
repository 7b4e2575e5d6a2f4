"""`lbrun` for Python programs: run a command, or submit a job and query it.

Options are those of `lbrun`, with `_` for `-`: `client.run(["make"], host="h2", mem="2G")`. `lbrun`
checks the values; its error message is raised.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from lbd.client.complaints import Trouble
from lbd.client.daemons import ask
from lbd.client.installed import lbrun_program
from lbd.client.lbm_socket import find_runtime_dirs
from lbd.console.job_output import printed_so_far
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.local.json_socket import SEVERAL, Json, Refusal
from lbd.text.ranges import ranges_in

Value = str | int | float | bool | os.PathLike[str] | None
Option: TypeAlias = (
    "Value | Sequence[str | int | os.PathLike[str] | Job] | Mapping[str, str] | Mapping[str, int]"
    " | Job"
)
Word = str | os.PathLike[str]

ANSWER_S = 30.0
PATIENCE_S = 15.0
RETRY_S = 0.5
RETRY_FOR_S = 60.0  # while a daemon restarts
ITS_OWN = ("exited", "signalled")  # causes that are the command's own end
FAILED = "failed"  # cause if lbrun could not run the command
# Options that this interface sets itself or that make no sense here.
NOT_HERE = {
    "queue", "detach", "status_file", "tty", "no_tty", "explain", "json", "help", "version", "q",
    "d", "t", "no_stdin",
}  # fmt: skip
REPEATED = {"exclude", "need", "feature", "not_feature", "env", "send", "fetch"}
OF_JOBS = {"after", "after_ok", "after_failed", "after_any", "after_task"}


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended, and what it printed."""

    args: tuple[str, ...]
    exit_status: int | None
    signal: int | None
    host: str | None
    cause: str  # "exited", "signalled", or the error
    output: bytes
    error: bytes
    reason: str = ""  # the error in words

    @property
    def ok(self) -> bool:
        return self.exit_status == 0

    def check(self) -> "Completed":
        """Raises JobFailed unless the command ended with 0."""
        if not self.ok:
            raise JobFailed(self)
        return self


class JobFailed(LbdError):
    """Raised if a command run with check=True did not end with exit status 0."""

    def __init__(self, completed: Completed) -> None:
        how = f"exit status {completed.exit_status}"
        if completed.reason and completed.cause not in ITS_OWN:
            how = completed.reason
        elif completed.signal:
            how = f"signal {completed.signal}"
        elif completed.exit_status is None:
            how = completed.cause
        super().__init__(f"{' '.join(completed.args)}: {how} on {completed.host or 'no host'}")
        self.completed = completed


class IsArray(LbdError):
    """Raised if an array is asked for what only its tasks have."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} is an array: each of its tasks() has an output and a result"
        )


class Client:
    def __init__(self, config: str | os.PathLike[str] | None = None) -> None:
        self.config = None if config is None else os.fspath(config)

    def run(
        self,
        argv: Sequence[Word],
        *,
        input: bytes | None = None,  # noqa: A002  # as subprocess.run has it
        check: bool = False,
        **options: Option,
    ) -> Completed:
        """Runs a command where there is room and waits for its end. Raises LbdError if it cannot be
        run, JobFailed if `check` is set and it fails."""
        with tempfile.TemporaryDirectory(prefix="lbd-run-") as directory:
            status = Path(directory) / "status"
            words = self.run_words(argv, status, options, input)
            completed = completed_of(argv, status, *communicate(words, input))
        return completed.check() if check else completed

    def submit(
        self,
        argv: Sequence[Word],
        *,
        input: bytes | None = None,  # noqa: A002  # as subprocess.run has it
        **options: Option,
    ) -> "Job":
        """Submits a job. Raises LbdError if the queue does not accept it."""
        words = self.submit_words(argv, options, input)
        return self.job(id_of(*communicate(words, input)))

    def job(self, job_id: str | int) -> "Job":
        """Returns a job that any program has submitted earlier."""
        return Job(self, str(job_id))

    # Internal.

    def run_words(
        self,
        argv: Sequence[Word],
        status: Path,
        options: Mapping[str, Option],
        data: bytes | None,
    ) -> list[str]:
        return self._lbrun(["-T", f"--status-file={status}"], argv, options, data)

    def submit_words(
        self, argv: Sequence[Word], options: Mapping[str, Option], data: bytes | None
    ) -> list[str]:
        return self._lbrun(["-d"], argv, options, data)

    def _lbrun(
        self,
        words: list[str],
        argv: Sequence[Word],
        options: Mapping[str, Option],
        data: bytes | None,
    ) -> list[str]:
        """`data`: its input. Raises TypeError for what is of the wrong type."""
        if isinstance(argv, str | bytes):
            raise TypeError(f"a command is a list of words, not {argv!r}")
        argv = list(argv)
        for word in argv:
            if not isinstance(word, str | bytes | os.PathLike):
                raise TypeError(f"a word of a command is a string or a path, not {word!r}")
        if isinstance(data, str):
            raise TypeError("input is bytes, not a string; use .encode()")
        if data is None:
            words.append("--no-stdin")
        if self.config is not None:
            words.append(f"--config={self.config}")
        return [
            lbrun_program(),
            *words,
            *option_words(options),
            "--",
            *(os.fspath(word) for word in argv),
        ]

    def ask_lbm(self, question: Json) -> Json:
        """Raises LbdError."""
        try:
            directories = find_runtime_dirs(self.config)
        except Trouble as problem:
            raise ConfigError(str(problem)) from None
        return ask(directories, "lbm", question, ANSWER_S)


class Job:
    """A queued job, or an array of them: then each of its `tasks` has a result and an output, and
    the array has not. Every method raises LbdError if the queue cannot be asked."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self.id = job_id

    def __repr__(self) -> str:
        return f"<lbd job {self.id}>"

    @property
    def state(self) -> str:
        """pending, running, suspended, done, failed, cancelled or lost."""
        return str(self.details()["state"])

    def details(self) -> Json:
        """Returns what `lbctl job ID --json` prints."""
        reply = self._client.ask_lbm({"op": "queue.jobs", "ids": [self.id], "attempts": True})
        (found,) = jobs_in(reply)
        return found

    def tasks(self) -> "list[Job]":
        """Returns the tasks of an array in order of their indexes; of another job, itself."""
        question: Json = {"op": "queue.jobs", "ids": [self.id], "tasks": True, "foretold": False}
        found = jobs_in(self._client.ask_lbm(question))
        return [Job(self._client, str(one["id"])) for one in found]

    def wait(self, timeout: float | None = None) -> str:
        """Waits until the job has ended; returns its state. Raises TimeoutError."""
        end_s = None if timeout is None else time.monotonic() + timeout
        down_since_s: float | None = None
        while True:
            left_s = PATIENCE_S if end_s is None else max(0.0, end_s - time.monotonic())
            question: Json = {"op": "queue.wait", "ids": [self.id], "brief": True}
            question["patience_s"] = min(PATIENCE_S, left_s)
            try:
                reply = self._client.ask_lbm(question)
            except Unavailable:
                down_since_s = down_since_s or time.monotonic()
                if time.monotonic() - down_since_s > RETRY_FOR_S:
                    raise
                time.sleep(RETRY_S)
                reply = {}
            else:
                down_since_s = None
            if reply.get("open") == 0:
                return self.state
            if end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s")

    def result(self, timeout: float | None = None, *, check: bool = False) -> Completed:
        """Waits for the job's end. Raises TimeoutError; JobFailed if `check` is set and it
        failed; IsArray."""
        if self.details().get("array"):
            raise IsArray(self.id)
        state = self.wait(timeout)
        found = self.details()
        output, error = self.logs() if found.get("started") else (b"", b"")
        status = found.get("exit_status")
        words = found.get("command")
        number = found.get("signal")
        reason = str(found.get("reason") or "")
        completed = Completed(
            tuple(map(str, words)) if isinstance(words, list) else (),
            status if isinstance(status, int) else None,
            number if isinstance(number, int) else None,
            str(found["host"]) if found.get("host") else None,
            str(found.get("cause") or state),
            output,
            error,
            reason,
        )
        return completed.check() if check else completed

    def logs(self) -> tuple[bytes, bytes]:
        """Returns output and errors printed so far, by the last attempt. Raises IsArray."""
        try:
            printed = printed_so_far(self._client.ask_lbm, self.id)
        except Refusal as problem:
            if problem.code == SEVERAL:
                raise IsArray(self.id) from None
            raise
        return bytes(printed.output), bytes(printed.error)

    def kill(self, signal: int = 0) -> None:
        """Ends the job, or sends it the given signal. Raises LbdError if it has ended or is not the
        caller's."""
        order: Json = {"op": "queue.act", "verb": "kill", "ids": [self.id], "signal": signal}
        errors = self._client.ask_lbm(order).get("errors")
        if isinstance(errors, list) and errors:
            raise LbdError(str(errors[0]))


def jobs_in(reply: Json) -> list[Json]:
    found = reply.get("jobs")
    return [job for job in found if isinstance(job, dict)] if isinstance(found, list) else []


def communicate(words: list[str], data: bytes | None) -> tuple[int, bytes, bytes]:
    """Runs lbrun until it exits. Returns exit status, output and errors."""
    if data is None:
        found = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    else:
        found = subprocess.run(words, input=data, capture_output=True, check=False)
    return found.returncode, found.stdout, found.stderr


def option_words(options: Mapping[str, Option]) -> list[str]:
    """Raises TypeError for an option that programs cannot use."""
    words: list[str] = []
    for name, value in options.items():
        if name in NOT_HERE:
            raise TypeError(f"{name}= is not for programs")
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        else:
            words += [f"{option}={text}" for text in values_of(name, value)]
    return words


def values_of(name: str, value: Option) -> list[str]:
    """Returns what an option is given, each in turn. Raises TypeError."""
    if isinstance(value, Mapping):
        return [f"{key}={text}" for key, text in value.items()]
    if isinstance(value, str | int | float | os.PathLike):
        return [text_of(value)]
    several: list[object] = [*value] if isinstance(value, Iterable) else [value]
    if name in OF_JOBS:
        return [",".join(str(getattr(one, "id", one)) for one in several)]
    if name == "array":
        return [",".join(indexes_of(several))]
    if name not in REPEATED:
        raise TypeError(f"{name}= takes one value, not {value!r}")
    return [text_of(one) for one in several]


def text_of(value: object) -> str:
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def indexes_of(several: list[object]) -> Iterator[str]:
    """Yields the indexes of an array as lbrun reads them. Raises TypeError."""
    numbers = [one for one in several if isinstance(one, int)]
    if wrong := [one for one in several if not isinstance(one, int)]:
        raise TypeError(f"array= takes whole numbers or a text like '1-10', not {wrong[0]!r}")
    for low, high in ranges_in(numbers):
        yield str(low) if low == high else f"{low}-{high}"


def completed_of(
    argv: Sequence[Word], status: Path, exit_status: int, output: bytes, error: bytes
) -> Completed:
    """Raises LbdError if lbrun could not run the command."""
    words = tuple(str(os.fspath(word)) for word in argv)
    try:
        found = json.loads(status.read_bytes())
    except (OSError, ValueError):  # lbrun was killed, or refused its options
        if exit_status == 125:
            raise complaint(error) from None
        number = -exit_status if exit_status < 0 else None
        return Completed(words, 128 - exit_status if number else exit_status, number, None,
                         "signalled" if number else "exited", output, error)  # fmt: skip
    if found["cause"] == FAILED:
        raise LbdError(str(found["reason"]))
    how = found["exit_status"], found["signal"], found["host"], found["cause"]
    return Completed(words, *how, output, error, found["reason"] or "")


def id_of(exit_status: int, output: bytes, error: bytes) -> str:
    """Raises LbdError."""
    if exit_status:
        raise complaint(error)
    return output.decode().strip()


def complaint(error: bytes) -> LbdError:
    lines = [line for line in error.decode(errors="replace").splitlines() if line]
    return LbdError(lines[-1].removeprefix("lbrun: ") if lines else "lbrun failed")
