"""Runs the nearby tests of each pure package against changed code. See tests/mutants/run --help.

mutmut copies the tree and renames every function to choose among its variants: tests that read the
source see that, and modules must be imported from where it put them. cosmic-ray starts pytest for
each change and knows no nearby tests. Here the tests are collected once. One child runs them and
records which functions each of them enters, and how long it takes. Then, one change at a time, a
child replaces the code of the one function and runs the tests that enter it until one fails: first
those that are quick and enter little else, one of each file in turn.
"""

import argparse
import ast
import contextlib
import cProfile
import gc
import itertools
import math
import os
import pickle
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

import pytest

from tests.mutants.mutations import Mutation, mutations

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
NEAR = {
    "lim/core": (
        "unit/lim/core",
        "unit/lim/test_[fkmr]*.py",
        "unit/lim/test_s[eho]*.py",
        "simulation/test_lim_[ar]*.py",
    ),
    "lbm/core": ("unit/lbm/core", "unit/lbm/test_*.py", "unit/lbm/queue"),
    "dispatch/core": (
        "unit/dispatch/core",
        "unit/dispatch/test_[ad]*.py",
        "unit/dispatch/test_gang_acts.py",
        "unit/dispatch/test_[rst]*.py",
    ),
    "policy": ("unit/policy", "unit/lim/core"),
    "theory": ("unit/theory", "unit/dispatch/core/test_*cutoffs.py"),
    "trust": ("unit/trust", "unit/net/test_signer.py", "unit/net/test_upkeep.py"),
}
TESTS_S = 10.0  # for the tests of one change: the first ones that together take so long
COLUMNS = ("package", "changes", "equivalent", "killed", "survived", "not entered", "score")
NOISE = 1e-6  # how rarely chance alone may fail a sample

Place = tuple[str, str]  # file, qualified name


class Entered(NamedTuple):
    """A test that enters a function."""

    file: Path  # the test's
    effort: float  # how long it takes, times the number of functions that it enters
    took_s: float
    test: int


@dataclass(slots=True)
class Score:
    killed: int = 0
    survived: int = 0
    equivalent: int = 0
    unreached: int = 0

    def cells(self) -> tuple[str | int, ...]:
        tried = self.killed + self.survived
        share = f"{self.killed / tried:.0%}" if tried else "-"
        counts = (self.equivalent, self.killed, self.survived, self.unreached)
        return (tried + self.equivalent, *counts, share)


def unlikely_if(share: float, killed: int, tried: int) -> bool:
    """Whether so few killed has a chance below NOISE if each is killed with this probability."""
    tail = sum(
        math.comb(tried, k) * share**k * (1 - share) ** (tried - k) for k in range(killed + 1)
    )
    return tail < NOISE


def in_child(work: Callable[[], int], cpu_s: float) -> int:
    """The exit status of `work` in a forked child; negative if it took too long or was killed."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_s), math.ceil(cpu_s) + 2))
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(nothing, fd)
            status = work()
        finally:
            os._exit(status)
    try:
        watched = os.pidfd_open(child)
        select.select([watched], [], [], 30 + 5 * cpu_s)
        os.close(watched)
    finally:
        if not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # processes that its tests have left
    return os.waitstatus_to_exitcode(status)


def code_of(code: CodeType, where: str) -> CodeType | None:
    if code.co_qualname == where:
        return code
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return next((found for c in inner if (found := code_of(c, where))), None)


def modules_with(path: Path, constant: str) -> list[ModuleType]:
    """This file's module, if it is imported and has the constant, and the modules that imported the
    constant from it."""
    own = sys.modules.get(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if own is None or constant not in vars(own):
        return []
    modules = [one for one in sys.modules.values() if isinstance(one, ModuleType) and one != own]
    value = vars(own)[constant]
    return [own, *(one for one in modules if vars(one).get(constant) is value)]


def in_turns(rows: Iterable[Entered]) -> list[Entered]:
    """One of each file in turn: the quickest tests of a thousand would come from only a few
    files."""
    files = itertools.groupby(sorted(rows), key=lambda row: row.file)
    turns = itertools.zip_longest(*(list(of_file) for _, of_file in files))
    return [row for turn in turns for row in sorted(filter(None, turn), key=lambda row: row.effort)]


@dataclass(eq=False, slots=True)
class Run:
    options: argparse.Namespace
    scores: dict[str, Score] = field(default_factory=dict)
    trees: dict[Path, ast.Module] = field(default_factory=dict)
    functions: dict[Place, list[FunctionType]] = field(default_factory=dict)
    entered: dict[Place, list[Entered]] = field(default_factory=dict)

    def pytest_configure(self) -> None:
        import hypothesis  # only now: pytest rewrites its asserts

        hypothesis.settings.register_profile(
            "mutants",
            derandomize=True,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        started_s = time.monotonic()
        for function in gc.get_objects():
            if isinstance(function, FunctionType):
                code = function.__code__
                place = (code.co_filename, code.co_qualname)
                self.functions.setdefault(place, []).append(function)
        self._trace(session)
        known = [line.split(" | ")[:2] for line in EQUIVALENT.read_text().splitlines()]
        with contextlib.suppress(SystemExit):  # when told to end, it shows its results so far
            for package, path, mutation in self._drawn():
                if self.options.seconds and time.monotonic() - started_s > self.options.seconds:
                    break
                self._try(session, package, path, mutation, known)
        return True

    def _try(
        self, session: pytest.Session, package: str, path: Path, mutation: Mutation,
        known: list[list[str]],
    ) -> None:  # fmt: skip
        score = self.scores.setdefault(package, Score())
        shown = f"{path.relative_to(ROOT)}:{mutation.line}: {mutation}"
        if [str(path.relative_to(ROOT)), str(mutation)] in known:
            score.equivalent += 1
            return
        reached, took_s = self._tests(path, mutation)
        if not reached and self.options.seconds:
            return  # not every test was run: one of the others may well enter it
        if reached and self._fails(session, path, mutation, reached, took_s):
            score.killed += 1
        else:
            score.survived += 1
            score.unreached += not reached
            print("survived" if reached else "not entered", shown, flush=True)

    def _drawn(self) -> list[tuple[str, Path, Mutation]]:
        found = []
        for package in self.options.packages:
            for path in sorted((ROOT / "lbd" / package).rglob("*.py")):
                if self.options.only and self.options.only not in str(path):
                    continue
                self.trees[path] = ast.parse(path.read_text())
                found += [(package, path, m) for m in mutations(self.trees[path])]
        rng = random.Random(self.options.seed)
        rng.shuffle(found)
        return found[: self.options.sample]

    def _trace(self, session: pytest.Session) -> None:
        """Records which test enters which functions. It takes one test from each file in turn, so
        that time for part of the tests is time for part of each file's."""
        files = itertools.groupby(enumerate(session.items), key=lambda item: item[1].path)
        turns = itertools.zip_longest(*([n for n, _ in group] for _, group in files))
        order = [n for turn in turns for n in turn if n is not None]
        end_s = time.monotonic() + (self.options.seconds / 3 if self.options.seconds else math.inf)
        with tempfile.TemporaryFile() as answer:

            def work() -> int:
                rows: list[tuple[int, float, set[Place]]] = []
                # in C: a function for sys.settrace takes ten times as long
                seen = cProfile.Profile(subcalls=False, builtins=False)
                for n, following in zip(order, [*order[1:], None], strict=True):
                    if time.monotonic() > end_s:
                        break
                    # CPU time: on a busy machine fewer tests would fit into TESTS_S
                    failed, began_s = session.testsfailed, time.process_time()
                    seen.clear()
                    seen.enable()
                    self._run(session, n, following)
                    seen.disable()
                    if session.testsfailed == failed:
                        ours = {
                            (code.co_filename, code.co_qualname.split(".<locals>")[0])
                            for code in (entry.code for entry in seen.getstats())
                            if isinstance(code, CodeType) and "/lbd/" in code.co_filename
                        }
                        rows.append((n, time.process_time() - began_s, ours))
                    else:
                        os.write(err, f"fails unchanged: {session.items[n].nodeid}\n".encode())
                pickle.dump(rows, answer)
                answer.flush()
                return 0

            err = os.dup(2)
            if status := in_child(work, cpu_s=3600):
                raise SystemExit(f"tests/mutants/run: the unchanged tests end with {status}")
            answer.seek(0)
            rows = pickle.load(answer)  # noqa: S301 (our own child's)
        for n, took_s, places in rows:
            row = Entered(session.items[n].path, took_s * len(places), took_s, n)
            for place in places | {(f, "") for f, _ in places}:
                self.entered.setdefault(place, []).append(row)

    @staticmethod
    def _run(session: pytest.Session, n: int, following: int | None) -> None:
        session.config.hook.pytest_runtest_protocol(
            item=session.items[n],
            nextitem=None if following is None else session.items[following],
        )

    def _tests(self, path: Path, mutation: Mutation) -> tuple[list[int], float]:
        """The tests that enter it, and their duration with unchanged code."""
        places: set[Place] = {(str(path), mutation.where)}
        if not places & self.functions.keys():  # a constant: any test that enters its file
            places = {(module.__file__ or "", "") for module in modules_with(path, mutation.where)}
        rows = in_turns({row for place in places for row in self.entered.get(place, [])})
        sums = list(itertools.accumulate(row.took_s for row in rows))
        count = max(1, sum(sum_s < TESTS_S for sum_s in sums))
        return [row.test for row in rows[:count]], sum(row.took_s for row in rows[:count])

    def _fails(
        self,
        session: pytest.Session,
        path: Path,
        mutation: Mutation,
        tests: list[int],
        took_s: float,
    ) -> bool:
        def work() -> int:
            self._apply(path, mutation)
            failed = session.testsfailed
            for n, following in zip(tests, [*tests[1:], None], strict=True):
                self._run(session, n, following)
                if session.testsfailed > failed:
                    return 1
            return 0

        return in_child(work, cpu_s=10.0 + 2 * took_s) != 0

    def _apply(self, path: Path, mutation: Mutation) -> None:
        mutation.put(mutation.became)
        if (str(path), mutation.where) in self.functions:
            whole = compile(self.trees[path], str(path), "exec")
            for (file, where), found in self.functions.items():
                # an object made from it when its module was imported stays unchanged
                inside = where == mutation.where or where.startswith(f"{mutation.where}.<locals>.")
                if file == str(path) and inside and (code := code_of(whole, where)):
                    for function in found:
                        function.__code__ = code
            return
        value = next(
            s.value
            for s in self.trees[path].body
            if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == mutation.where
        )
        code = compile(ast.Expression(value), str(path), "eval")
        modules = modules_with(path, mutation.where)
        new = eval(code, vars(modules[0]))  # noqa: S307 (our own source)
        for module in modules:
            setattr(module, mutation.where, new)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tests/mutants/run",
        description="Changes the code of pure"
        " packages in small ways and counts the changes that no near test notices.",
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(NEAR)}")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="at most N changes, drawn by the seed"
    )
    parser.add_argument("--seed", default="1", help="any text; the same one draws the same changes")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help="of one package, drawn unless named: as many changes as fit, a third of the time"
        " for running its tests unchanged (those that fit)",
    )
    parser.add_argument(
        "--at-least",
        type=float,
        metavar="SHARE",
        help="fails if so few are killed that a true share of SHARE"
        f" would show that in less than {NOISE} of samples",
    )
    parser.add_argument("--only", metavar="TEXT", help="only of files with TEXT in their path")
    options = parser.parse_args()
    if unknown := set(options.packages) - set(NEAR):
        parser.error(f"no package {' '.join(unknown)}; there are {', '.join(NEAR)}")
    if not options.packages:
        all_of_them = list(NEAR)
        drawn = random.Random(options.seed).choice(all_of_them)
        options.packages = [drawn] if options.seconds else all_of_them
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for more in ("LBD_SIM_SEEDS", "LBD_FAULT_SEEDS"):
        os.environ.setdefault(more, "1")
    near = {p for name in options.packages for g in NEAR[name] for p in (ROOT / "tests").glob(g)}
    run = Run(options)
    status = pytest.main(
        ["-p", "no:terminal", "-p", "no:cacheprovider", *map(str, sorted(near))], plugins=[run]
    )
    if status:
        return int(status)
    if not run.scores:
        print("no change was tried: no time left, or none that the tests run unchanged enter")
        return 0
    for name, *cells in [COLUMNS, *((p, *score.cells()) for p, score in run.scores.items())]:
        print(f"{name:14}" + "".join(f"{cell!s:>12}" for cell in cells))
    killed = sum(score.killed for score in run.scores.values())
    tried = killed + sum(score.survived for score in run.scores.values())
    if options.at_least and unlikely_if(options.at_least, killed, tried):
        print(f"tests/mutants/run: {killed} of {tried} killed: too few", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
