"""`python deploy/screens`: captures each screen of lbctl at 80 and 160 columns.

The cluster is always the same one (`cluster.py`), the lines are drawn by the programs' own code. It
writes the texts that the tests compare with, the page that shows them, and pictures in colour.
`--check` writes nothing, and fails if a file is not what would be written.
"""

import re
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from deploy.screens import cluster
from lbd.cli.ctl.doctor import report_lines
from lbd.cli.ctl.jobs.listing import job_lines
from lbd.cli.ctl.owners import owners_lines
from lbd.cli.ctl.predict import predict_lines
from lbd.cli.ctl.stats import stats_lines, summed
from lbd.cli.ctl.status import status_lines
from lbd.cli.ctl.top.model import Facts, Model
from lbd.cli.ctl.top.picture import Size, draw
from lbd.cli.lab.program import lab_lines
from lbd.console.figures import Clock
from lbd.console.output import PAINTED, Page, Paint, width

WIDTHS = (80, 160)
TOP_LINES = 24
TEXTS = Path("tests/unit/cli/screens")
PICTURES = Path("docs/pictures")
BOOK_PAGE = Path("docs/reference/screens.md")
IN_COLOUR = ("status", "top", "top-jobs")
CLOCK = Clock(cluster.NOW_S, utc=True)
CELL_WIDTH, CELL_HEIGHT, MARGIN = 7.25, 16, 12
GROUND, PLAIN = "#1b1f27", "#d5d9e0"
COLOURS = {"31": "#f2726f", "32": "#4ec97b", "33": "#d7b35e", "2": "#8a93a3", "1": "#ffffff"}
WORDS = re.compile(r"\S+(?: \S+)*")
MADE = "<!-- Written by deploy/screens from the programs' own drawing code: run it again. -->\n\n"
ABOUT = {
    "status": ("lbctl status", "Who is up and how busy. The bar and LOAD are tasks for each core "
               "of usual speed: the bar is full at 1. SLOTS and MEMORY are what is used, of all. "
               "Rows of hosts that do not answer are grey: their numbers are old."),
    "status-tiers": ("lbctl status, under tags", "Each host serves some of the tiers."),
    "jobs": ("lbctl jobs", "What runs and what waits, and why."),
    "top": ("lbctl top", "The same, live. `?` shows the keys."),
    "top-many": ("lbctl top, 300 hosts", "Sorted by load (`P`); the last line of the table says "
                 "how many do not fit."),
    "top-jobs": ("lbctl top, jobs", "`2`; here `k` was pressed on a job."),
    "top-queue": ("lbctl top, queue", "`3`: what waits, and why."),
    "top-help": ("lbctl top, help", "`?`"),
    "stats": ("lbctl stats", "Of jobs that have ended: mean, median, 95th percentile and standard "
              "deviation (SD) of the response time, and of the others what fits."),
    "owners": ("lbctl owners", "Whose owners are back."),
    "predict": ("lbctl predict -n 1-8", "When a job would begin, on each number of slots."),
    "doctor": ("lbctl doctor", "Each fault with its fix."),
    "lab-status": ("lbd lab status", "The hosts of a lab and their daemons."),
}  # fmt: skip


def top_after(keys: list[str], status: dict[str, object] = cluster.STATUS) -> Model:
    model = Model()
    model.take(Facts(status, tuple(cluster.JOBS), has_come=True))
    for key in keys:
        lines_of_top(model, Page(Paint(on=False), 80))  # as a person sees it before the next key
        model.key(key)
    return model


def lines_of_top(model: Model, page: Page) -> list[str]:
    return draw(model, Size(page.columns or 80, TOP_LINES), page.paint, CLOCK, 1.0)


SCREENS: dict[str, Callable[[Page], list[str]]] = {
    "status": lambda page: status_lines(cluster.STATUS, CLOCK, page),
    "status-tiers": lambda page: status_lines(cluster.with_tiers(), CLOCK, page),
    "jobs": lambda page: job_lines(cluster.JOBS, CLOCK, page),
    "top": lambda page: lines_of_top(top_after(["down", "down"]), page),
    "top-many": lambda page: lines_of_top(top_after(["P"], cluster.MANY_HOSTS), page),
    "top-jobs": lambda page: lines_of_top(top_after(["2", "down", "down", "k"]), page),
    "top-queue": lambda page: lines_of_top(top_after(["3"]), page),
    "top-help": lambda page: lines_of_top(top_after(["?"]), page),
    "stats": lambda page: stats_lines(cluster.USAGE, *summed(cluster.USAGE), "within 1d", page),
    "owners": lambda page: owners_lines(cluster.OWNERS, CLOCK, page),
    "predict": lambda page: predict_lines(cluster.PREDICTION, 1, 8, page),
    "doctor": lambda page: report_lines(cluster.CHECKS, page),
    "lab-status": lambda page: lab_lines(cluster.LAB, page),
}


def files() -> dict[Path, str]:
    """Path from the top of the source -> what is to be in it."""
    found: dict[Path, str] = {}
    for name, lines_of in SCREENS.items():
        for columns in WIDTHS:
            lines = [line.rstrip() for line in lines_of(Page(Paint(on=False), columns))]
            found[TEXTS / f"{name}-{columns}.txt"] = "\n".join(lines).rstrip() + "\n"
        if name in IN_COLOUR:
            page = Page(Paint(on=True), WIDTHS[0])
            found[PICTURES / f"screen-{name}.svg"] = picture(ABOUT[name][0], lines_of(page))
    found[BOOK_PAGE] = MADE + "\n".join(book_page(found)).rstrip() + "\n"
    return found


def book_page(texts: dict[Path, str]) -> Iterator[str]:
    yield "# Screens\n"
    yield (
        "What the programs show, on a terminal of 80 and of 160 columns. A narrow one has fewer "
        "columns, never a line that wraps; without a terminal (in a pipe) no column but the bar "
        "(`BUSY`) is left out, a name is cut after 40 characters and a command after 2000. Colour "
        "only on a terminal, and never with `NO_COLOR`.\n"
    )
    yield (
        "Durations are `4.2ms`, `4.6s`, `3m05s`, `2h10m`, `4d03h`; memory is `812`, `4.0K`, `1.5G` "
        "(powers of 1024); what is not known is `–`. Times of day are local, or UTC with `--utc`. "
        "For scripts there is `--json`.\n"
    )
    for name, (title, about) in ABOUT.items():
        yield f"## {title}\n\n{about}\n"
        if name in IN_COLOUR:
            yield f"![{title}](../pictures/screen-{name}.svg)\n"
        for columns in WIDTHS:
            yield f"{columns} columns:\n\n```text\n{texts[TEXTS / f'{name}-{columns}.txt']}```\n"


def picture(title: str, lines: list[str]) -> str:
    columns = max(WIDTHS[0], *(width("".join(PAINTED.split(line)[::2])) for line in lines))
    wide, high = columns * CELL_WIDTH + 2 * MARGIN, len(lines) * CELL_HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        'font-family="DejaVu Sans Mono,ui-monospace,Menlo,Consolas,monospace" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
    ]
    for at, line in enumerate(lines):
        parts += pieces(line, MARGIN + at * CELL_HEIGHT)
    return "\n".join([*parts, "</svg>\n"])


def pieces(line: str, top: float) -> Iterator[str]:
    """The parts of a line that have one colour each, at the columns where they stand."""
    colour, column = "", 0
    for at, part in enumerate(PAINTED.split(line)):
        if at % 2:
            colour = part[2:-1]
            continue
        x = MARGIN + column * CELL_WIDTH
        column += width(part)
        ink = COLOURS.get(colour, PLAIN)
        if colour == "7":
            ink = GROUND
            yield (
                f'<rect x="{x:.1f}" y="{top:.0f}" width="{width(part) * CELL_WIDTH:.1f}" '
                f'height="{CELL_HEIGHT}" fill="{PLAIN}"/>'
            )
        for word in WORDS.finditer(part):  # each at its column, whatever the font's widths are
            left = x + width(part[: word.start()]) * CELL_WIDTH
            long = width(word.group()) * CELL_WIDTH
            yield (
                f'<text x="{left:.1f}" y="{top + 0.75 * CELL_HEIGHT:.0f}" fill="{ink}" '
                f'textLength="{long:.1f}">{escape(word.group())}</text>'
            )


def outdated() -> list[str]:
    """Files that are missing, or not what the programs draw now."""
    return sorted(
        str(path)
        for path, text in files().items()
        if not (ROOT / path).exists() or (ROOT / path).read_text() != text
    )


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: python deploy/screens [--check]", file=sys.stderr)
        return 2
    if argv:
        old = outdated()
        for name in old:
            print(f"{name} is out of date: run deploy/screens, and look at it", file=sys.stderr)
        return 1 if old else 0
    for path, text in files().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
