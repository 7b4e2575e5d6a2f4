"""Writes a figure to a file with matplotlib (the extra `sim`): needs no display and always writes
the same bytes."""

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from lbd.sim.figures.figure import Drawing, Figure

SIZE_INCHES = (7.0, 5.0)
MARKERS = "osv^D*Px+"


def draw(figure: Figure, drawing: Drawing, out: str) -> None:
    """Raises OSError if the file cannot be written."""
    mpl.rcParams["svg.hashsalt"] = "lbd"  # otherwise each file would differ
    canvas = Canvas(figsize=SIZE_INCHES, layout="constrained")
    axes = canvas.subplots()
    for number, line in enumerate(drawing.lines):
        marker = MARKERS[number % len(MARKERS)]
        style = "none" if drawing.scattered else "--" if line.printed else "-"
        widths = list(line.interval) or None
        name = f"{line.name} (printed)" if line.printed else line.name
        axes.errorbar(
            line.x, line.y, yerr=widths, marker=marker, linestyle=style, capsize=2, label=name,
            markersize=4, linewidth=1.2, elinewidth=0.6,
        )  # fmt: skip
    axes.set_xscale("log" if drawing.log_x else "linear")
    axes.set_yscale("log" if drawing.log_y else "linear")
    axes.set_xlabel(drawing.x_label)
    axes.set_ylabel(drawing.y_label)
    axes.set_title(f"{figure.title} ({figure.source})", fontsize="medium")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    metadata = {"Date": None} if out.endswith(".svg") else {}
    canvas.savefig(out, metadata=metadata)
