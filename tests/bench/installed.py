"""What `pip install` of a wheel makes in a fresh venv, beside what `deploy/setup` makes: the same
programs, so the same times. Each has a lab of its own, since the daemons come from the venv,
too."""

import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.bench.measure import WARM_UP_ROUNDS, CannotMeasureError, in_turns, run_s, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import ROOT, Stage

TRUE = "/usr/bin/true"
RIVAL = "deploy/setup's"
PIP_TIMEOUT_S = 300.0
# The words for `lbrun` that each figure measures.
FIGURES = {
    "pip-local": ("--local",),
    "pip-remote": ("-H", "h2"),
    "pip-python": ("--timeout", "60", "--local"),  # an option that the front leaves to Python
}


class Venv:
    def __init__(self, root: Path) -> None:
        self.lbrun = root / "bin/lbrun"
        self._lbd = root / "bin/lbd"

    def lbd(self, *words: object) -> list[str]:
        return [str(self._lbd), *map(str, words)]


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    """Measures those wanted of pip-local, pip-remote and pip-python."""
    done([ROOT / "deploy/setup"])
    venvs = {"pip": fresh(stage.directory / "pip"), "setup": Venv(ROOT / ".venv")}
    cases = {}
    for maker, venv in venvs.items():
        lab = stage.stack.enter_context(stage.new_lab(f"by-{maker}", 2, installation=venv))
        for name in sorted(wanted):
            argv = [str(venv.lbrun), *FIGURES[name], TRUE]
            cases[f"{maker} {name}"] = partial(run_s, argv, lab.environment("h1"))
    stage.others.wait_until_quiet(0 if stage.quick else 20)
    mark = stage.others.mark()
    samples = in_turns(cases, stage.runs, stage.rng, WARM_UP_ROUNDS)
    others = stage.others.share_since(mark)
    ms = {name: summarise([1e3 * s for s in taken]) for name, taken in samples.items()}
    return [
        Row(
            f"pip: lbrun {' '.join(words)} true", "ms", ms[f"pip {name}"], RIVAL,
            ms[f"setup {name}"], Bound(1.1), others,
        )
        for name, words in FIGURES.items()
        if name in wanted
    ]  # fmt: skip


def fresh(root: Path) -> Venv:
    """A venv made by pip alone, from a wheel of the source tree; dependencies come from pip's
    index."""
    wheels = root.with_name("wheels")
    done([sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", wheels, ROOT])
    (wheel,) = wheels.glob("lbd-*.whl")
    done([sys.executable, "-m", "venv", root])
    done([root / "bin/pip", "install", wheel])
    return Venv(root)


def done(argv: list[object]) -> None:
    result = subprocess.run(argv, capture_output=True, text=True, timeout=PIP_TIMEOUT_S)
    if result.returncode:
        raise CannotMeasureError(f"{argv[0]}: {result.stderr.strip()[-500:]}")
