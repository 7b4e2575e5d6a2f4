"""`lbd sim figure` and `lbd sim list`: the papers' figures from our own simulations.

Drawing needs matplotlib (the extra `sim`); the numbers and the claims do not.
"""

import argparse
import importlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.cli.extras import has_matplotlib
from lbd.cli.program import Parser
from lbd.cli.quantities import whole
from lbd.cli.sim.balance import length_s
from lbd.cli.sim.migrate import read_series
from lbd.cli.sim.pool import Pool, add_workers
from lbd.console.figures import figure as rounded
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError, LbdError
from lbd.sim.figures.catalogue import FIGURES
from lbd.sim.figures.figure import Curve, Drawing, Figure, Scale
from lbd.text.install_line import lacks
from lbd.text.spelling import hint

if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = (".svg", ".png")
EXAMPLES = (
    "lbd sim figure zhou-3.4 --out period.svg",
    "lbd sim figure zhou-3.2 --replications 10 --duration 1h --json",
)


def main(argv: list[str]) -> int:
    options = parsed(argv)
    if options.name not in FIGURES:
        known = "`lbd sim list` names them"
        raise ConfigError(f'no figure "{options.name}"; {hint(options.name, FIGURES) or known}')
    if options.out:
        check_out(options.out)
    chosen = FIGURES[options.name]
    series = (
        () if options.series is None else tuple(map(tuple, read_series(options.series, "figure")))
    )
    scale = Scale(length_s(options.duration), options.replications, options.seed, series)
    drawing = chosen.make(scale, Pool(f"lbd sim figure {options.name}", options.workers))
    if options.out:
        draw: Callable[[Figure, Drawing, str], None]
        draw = importlib.import_module("lbd.cli.sim.plot").draw
        draw(chosen, drawing, options.out)
    if options.json:
        head = {"name": options.name, "title": chosen.title, "source": chosen.source}
        scaled = asdict(replace(scale, series=()))
        del scaled["series"]
        print_json({**head, **scaled, **asdict(drawing)})
    else:
        show(chosen, drawing, with_numbers=not options.out)
    return 0


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser("lbd sim figure", "redraw a figure of the papers from our own runs", EXAMPLES)
    parser.add_version()
    add = parser.add_argument
    add("name", metavar="NAME", help="`lbd sim list` shows them")
    add("--out", metavar="FILE", help="draw it there: .svg or .png")
    add("--json", action="store_true", help="the numbers and the claims, for programs")
    add("--duration", default="20m", metavar="DUR", help="of each run's arrivals (default 20m)")
    add("--replications", type=whole(2, 10_000), default=3, metavar="R", help="(default 3)")
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="(default 1)")
    add("--series", metavar="FILE.tar[.xz]",
        help="of he-3: CPU %% a line, a file a host and day")  # fmt: skip
    add_workers(parser)
    return parser.parse_args(argv)


def check_out(out: str) -> None:
    """Raises an error before minutes are spent on what cannot be drawn."""
    if not out.endswith(ENDINGS):
        raise ConfigError(f"--out {out}: the name must end in .svg or .png")
    if not Path(out).absolute().parent.is_dir():
        raise ConfigError(f"--out {out}: there is no such directory")
    if not has_matplotlib():
        raise LbdError(f"{lacks('drawing', ['matplotlib'])}; --json does without")


def show(chosen: Figure, drawing: Drawing, with_numbers: bool) -> None:
    put(f"{chosen.title} ({chosen.source})")
    if with_numbers and not drawing.scattered:
        xs = sorted({x for line in drawing.lines for x in line.x})
        put(f"{drawing.y_label}, by {drawing.x_label}:")
        rows = [row(line, xs, drawing.log_y) for line in drawing.lines]
        print_table(("", *(f">{x:g}" for x in xs)), rows)
    for claim in drawing.claims:
        verdict = "holds" if claim.holds else "DOES NOT HOLD"
        put(f"{verdict}: {claim.text} [{claim.ours}]")


def row(line: Curve, xs: list[float], of_any_size: bool) -> list[str]:
    at = {
        x: f"{y:.3g}" if of_any_size else rounded(y, 3) for x, y in zip(line.x, line.y, strict=True)
    }
    name = f"{line.name} (printed)" if line.printed else line.name
    return [name, *(at.get(x, "") for x in xs)]


def main_list(argv: list[str]) -> int:
    parser = Parser("lbd sim list", "the figures that `lbd sim figure` can redraw")
    parser.add_version()
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(argv)
    if options.json:
        figures = [
            {"name": name, "title": item.title, "source": item.source}
            for name, item in FIGURES.items()
        ]
        print_json({"figures": figures})
    else:
        print_table(
            ("name", "title", "source"),
            [(name, item.title, item.source) for name, item in FIGURES.items()],
        )
    return 0
