"""`python deploy/book/picture.py FILE.svg`: a build over the hosts of a lab, as a moving picture.

It starts a lab, builds a small project once so that the compiler is known to be worth moving, and
then records two terminals: `make -B -j8 SHELL=lbsh`, and `lbctl top` below it. Nothing is drawn
that these programs did not print. The picture loops and needs no script, so a README can show it.
However fast the machine is, the project has as many files as take it some `BUILD_S` to compile.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv/bin"
COLUMNS, MAKE_LINES, TOP_LINES = 104, 9, 22
CELL_WIDTH, CELL_HEIGHT, MARGIN = 7.25, 16, 12
LOOK_S, STEP_S, REST_S = 0.8, 0.4, 4.0  # between two looks; shown for; the last one before it loops
BUILD_S, FRAMES_MIN, FRAMES_MAX = 16.0, 15, 60
COLOURS = {"green": "#4ec97b", "red": "#f2726f", "brown": "#d7b35e", "default": "#d5d9e0"}
DIM, GROUND, BAR, SELECTED_BAR = "#8a93a3", "#1b1f27", "#2a303b", "#3a4557"
FIRST_FILES, FILES_MIN, FILES_MAX, FUNCTIONS = 8, 16, 200, 300

Row = tuple[tuple[str, str, int], ...]  # text, colour, column
SELECTED = ("", "", 0)  # first in the row that keys act on


class Terminal:
    """A program on a terminal of its own, and what it has printed so far."""

    def __init__(self, argv: list[str], environment: dict[str, str], cwd: Path, lines: int) -> None:
        self.screen = pyte.Screen(COLUMNS, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._fd, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", lines, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=child, stdout=child, stderr=child, cwd=cwd,
            env=environment,
        )  # fmt: skip
        os.close(child)

    def read(self) -> None:
        while select.select([self._fd], [], [], 0)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the program has ended
                return
            self._stream.feed(data)

    def rows(self) -> list[Row]:
        return [tuple(runs(self.screen, line)) for line in range(self.screen.lines)]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        os.close(self._fd)


def runs(screen: pyte.Screen, line: int) -> Iterator[tuple[str, str, int]]:
    """The pieces of a line that have one colour each, without the blanks around them."""
    cells = screen.buffer[line]
    if any(cells[column].reverse for column in range(screen.columns)):
        yield SELECTED
    text, colour, begin = "", "", 0
    for column in range(screen.columns + 1):
        cell = cells[column] if column < screen.columns else None
        now = COLOURS.get(cell.fg, COLOURS["default"]) if cell else ""
        if cell is None or (now != colour and cell.data != " "):
            if text.strip():
                yield (text.rstrip(), colour, begin)
            text, colour, begin = "", now, column
        if cell is not None:
            text += cell.data


def record(inside: list[str], environment: dict[str, str], work: Path) -> list[list[Row]]:
    """A frame for each step: the rows of both terminals."""
    looks = [*inside, "lbctl", "top", "--interval", "0.5"]
    top = Terminal(looks, environment, work, TOP_LINES)
    wait_for(lambda: (top.read(), "h4" in "\n".join(top.screen.display))[1])
    build = [*inside, "make", "-B", "-j8", "CFLAGS=-O2", "SHELL=lbsh"]
    make = Terminal(build, environment, work, MAKE_LINES)
    frames = []
    while make.process.poll() is None:
        time.sleep(LOOK_S)
        make.read()
        top.read()
        if len(frames) < FRAMES_MAX:
            frames.append([*make.rows(), *top.rows()])
    top.end()
    if len(frames) < FRAMES_MIN:
        sys.exit(f"picture.py: {len(frames)} frames only: the build took less time than before")
    return frames


def wait_for(condition: Callable[[], object], limit_s: float = 60) -> None:
    end_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end_s:
            sys.exit("picture.py: nothing to be seen")
        time.sleep(0.1)


def project(work: Path, files: int) -> None:
    for number in range(1, files + 1):
        names = [f"f{number}_{n}" for n in range(FUNCTIONS)]
        lines = [f"int {name}(int x) {{ return x * {len(name)} + x / 7; }}" for name in names]
        (work / f"part{number}.c").write_text("\n".join(lines) + "\n")
    (work / "Makefile").write_text("all: $(patsubst %.c,%.o,$(wildcard part*.c))\n")


def drawn(frames: list[list[Row]]) -> str:
    """The SVG: each row once for each stretch of time in which it stays the same."""
    length_s = len(frames) * STEP_S + REST_S
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    below = MARGIN + 22 + MAKE_LINES * CELL_HEIGHT + 14
    height = below + 22 + TOP_LINES * CELL_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12">',
        "<title>make -j8 SHELL=lbsh, and lbctl top: the compilers run on four hosts</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
    ]
    for top, title in ((MARGIN, "$ make -B -j8 CFLAGS=-O2 SHELL=lbsh"), (below, "$ lbctl top")):
        parts.append(f'<rect x="0" y="{top - 6}" width="100%" height="22" fill="{BAR}"/>')
        parts.append(f'<text x="{MARGIN}" y="{top + 10}" fill="{DIM}">{escape(title)}</text>')
    for line in range(MAKE_LINES + TOP_LINES):
        first = MARGIN + 22 if line < MAKE_LINES else below + 22
        at = line if line < MAKE_LINES else line - MAKE_LINES
        y = first + (at + 0.8) * CELL_HEIGHT
        for row, begin, end in stretches([frame[line] for frame in frames]):
            if row:
                parts.append(shown(row, y, begin, end, len(frames), length_s))
    return "\n".join([*parts, "</svg>\n"])


def stretches(rows: list[Row]) -> Iterator[tuple[Row, int, int]]:
    """A row with the first frame it is in and the first it is not in."""
    begin = 0
    for number in range(1, len(rows) + 1):
        if number == len(rows) or rows[number] != rows[begin]:
            yield rows[begin], begin, number
            begin = number


def shown(row: Row, y: float, begin: int, end: int, count: int, length_s: float) -> str:
    pieces = "".join(
        f'<tspan x="{MARGIN + column * CELL_WIDTH:.1f}" fill="{colour}">{escape(text)}</tspan>'
        for text, colour, column in row
        if text
    )
    pieces = f'<text y="{y:.0f}" xml:space="preserve">{pieces}</text>'
    if row[0] == SELECTED:
        top = y - 0.8 * CELL_HEIGHT
        bar = f'<rect y="{top:.0f}" width="100%" height="{CELL_HEIGHT}" fill="{SELECTED_BAR}"/>'
        pieces = bar + pieces
    last = end == count
    if begin == 0 and last:
        return pieces
    from_, to = begin * STEP_S / length_s, 1.0 if last else end * STEP_S / length_s
    values, times = ["inline"], [0.0]
    if begin:
        values, times = ["none", "inline"], [0.0, from_]
    if not last:
        values, times = [*values, "none"], [*times, to]
    return (
        f'<g display="{"inline" if last else "none"}">{pieces}<animate attributeName="display" '
        f'values="{";".join(values)}" keyTimes="{";".join(f"{t:.4f}" for t in times)}" '
        f'dur="{length_s:g}s" calcMode="discrete" repeatCount="indefinite"/></g>'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="a build over a lab's hosts, as a moving picture")
    parser.add_argument("file", type=Path)
    out: Path = parser.parse_args().file
    base = Path(tempfile.mkdtemp(prefix="lbd-pic"))
    work, lab = base / "project", base / "lab"
    work.mkdir()
    project(work, FIRST_FILES)
    run = [str(BIN / "lbd"), "lab"]
    try:
        subprocess.run([*run, "up", "--hosts", "4", "--dir", lab], check=True)
        environment = {
            **os.environ, "TERM": "linux", "LC_ALL": "C.UTF-8", "COLUMNS": str(COLUMNS),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }  # fmt: skip
        inside = [*run, "exec", "h1", "--dir", str(lab), "--"]
        make = ["make", "-s", "-B", "-j8", "CFLAGS=-O2", "SHELL=lbsh"]
        for _ in range(2):  # the first time the compiler is measured here, and goes nowhere
            began_s = time.monotonic()
            subprocess.run([*inside, *make], check=True, cwd=work, env=environment)
        each_s = (time.monotonic() - began_s) / FIRST_FILES
        project(work, min(FILES_MAX, max(FILES_MIN, round(BUILD_S / each_s))))
        time.sleep(5)  # the load of that fades
        frames = record(inside, environment, work)
    finally:
        subprocess.run([*run, "down", "--dir", lab], check=False)
        shutil.rmtree(base, ignore_errors=True)
    out.write_text(drawn(frames))
    print(f"{out}: {len(frames)} frames, {out.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
