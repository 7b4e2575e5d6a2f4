"""An experiment's directory: its design, and each run that has ended.

OUT/experiment.json   the design, and the commands as measured on this machine
OUT/runs/*.json       one file for each run; an interrupted experiment continues from these
OUT/lab               the path of this experiment's lab while it exists
OUT/work/             the files that commands work on; removed at the end
OUT/report.html
"""

import json
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.experiment.commands import Command
from lbd.experiment.design import Case, Design, design_of
from lbd.experiment.outcome import Outcome, as_json, from_json
from lbd.process.file_lock import lock_file
from lbd.process.whole_file import write_whole

SCHEMA = 1


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / "runs"
        self.work = root / "work"
        self.report = root / "report.html"
        self._head = root / "experiment.json"
        self._lab = root / "lab"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the store for one command at a time. Raises LbdError, ConfigError."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            descriptor = lock_file(self.root / "lock", 0.0)
        except TimeoutError:
            raise LbdError(f"{self.root}: this experiment is already running") from None
        except OSError as problem:
            raise ConfigError(f"--out {self.root}: {problem.strerror}") from problem
        try:
            yield
        finally:
            os.close(descriptor)

    # Design

    def begun(self) -> tuple[Design, list[Command]] | None:
        """Returns None in a new directory. Raises LbdError if it holds something else."""
        try:
            body = json.loads(self._head.read_text(encoding="utf-8"))
            commands = [
                Command(**{**one, "words": tuple(one["words"])}) for one in body["commands"]
            ]
            return design_of(body["design"]), commands
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise LbdError(
                f"{self._head} cannot be read ({problem}); remove it or use another --out"
            ) from problem

    def begin(self, design: Design, commands: Sequence[Command]) -> None:
        body = {
            "schema": SCHEMA,
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}",
            "design": asdict(design),
            "commands": [asdict(command) for command in commands],
        }
        write_whole(self._head, json.dumps(body, indent=1).encode() + b"\n")

    # Runs

    def outcome(self, case: Case) -> Outcome | None:
        """Returns None for a run that has not been made. Raises LbdError."""
        path = self.runs / f"{case.name}.json"
        try:
            return from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LbdError) as problem:
            raise LbdError(f"{path}: {problem}; remove it to repeat that run") from problem

    def keep(self, outcome: Outcome) -> None:
        path = self.runs / f"{outcome.case.name}.json"
        write_whole(path, json.dumps(as_json(outcome)).encode() + b"\n")

    # Lab

    def left_lab(self) -> Path | None:
        """Returns the path of the lab that an earlier process, now dead, left behind."""
        try:
            return Path(self._lab.read_text(encoding="utf-8").strip())
        except OSError:
            return None

    def has_lab(self, place: Path) -> None:
        write_whole(self._lab, f"{place}\n".encode())

    def lab_gone(self) -> None:
        self._lab.unlink(missing_ok=True)

    def tidy(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
