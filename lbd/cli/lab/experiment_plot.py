"""Draws the report's figures with matplotlib (the extra `sim`), as SVG inside HTML."""

import io
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from lbd.experiment import thesis
from lbd.experiment.design import INDEX, NOLB
from lbd.experiment.outcome import Outcome
from lbd.experiment.report import label
from lbd.experiment.summary import Row, present

WIDTH, HEIGHT = 8.0, 3.4
GREY, BLUE, ORANGE = "#999999", "#33669c", "#d97b1e"


def drawings(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> list[str]:
    """Returns SVG elements."""
    mpl.rcParams["svg.hashsalt"] = "lbd"
    mpl.rcParams["svg.fonttype"] = "none"  # keep text as text
    found = []
    for load in dict.fromkeys(row.load for row in rows):
        mine = [row for row in rows if row.load == load]
        found.append(responses(load, mine))
        if len(mine) > 1:
            found += [by_kind(load, mine), loads(load, mine, outcomes)]
    return found


def responses(load: str, rows: Sequence[Row]) -> str:
    """Draws mean and deviation, ours beside the printed ones scaled to our NOLB."""
    canvas = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = canvas.subplots()
    at = range(len(rows))
    base = rows[0].mean_s
    widths = [row.mean_ci95_s or 0.0 for row in rows]
    colours = [GREY if row.algorithm == NOLB else BLUE for row in rows]
    axes.bar(at, [row.mean_s for row in rows], yerr=widths, color=colours, capsize=3,
             label="mean, 95 %")  # fmt: skip
    axes.plot(at, [row.sd_s for row in rows], "k_", markersize=14, label="deviation")
    printed = [
        (x, base * (1 - thesis.MEAN[row.algorithm]))
        for x, row in zip(at, rows, strict=True)
        if load == "canonical" and row.index == INDEX and row.algorithm in thesis.MEAN
    ]
    if printed:
        axes.plot(
            *zip(*printed, strict=True), "D", color=ORANGE, label="mean as printed × our NOLB"
        )
    axes.set_xticks(list(at), [label(row).replace(" ", "\n") for row in rows], fontsize="small")
    axes.set_ylabel("response time, s")
    axes.set_title(f"Response time, {load} load", fontsize="medium")
    axes.legend(fontsize="small")
    return svg(canvas)


def by_kind(load: str, rows: Sequence[Row]) -> str:
    canvas = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = canvas.subplots()
    kinds = list(rows[0].by_kind)
    width = 0.8 / len(rows)
    for number, row in enumerate(rows):
        ys = [row.by_kind[kind][1] if kind in row.by_kind else 0.0 for kind in kinds]
        colour = GREY if row.algorithm == NOLB else None
        axes.bar([x + number * width for x in range(len(kinds))], ys, width, label=label(row),
                 color=colour)  # fmt: skip
    axes.set_xticks([x + 0.4 - width / 2 for x in range(len(kinds))], kinds, fontsize="small")
    axes.set_ylabel("mean response time, s")
    axes.set_title(f"By command, {load} load", fontsize="medium")
    axes.legend(fontsize="x-small", ncols=3)
    return svg(canvas)


def loads(load: str, rows: Sequence[Row], outcomes: Sequence[Outcome]) -> str:
    """Draws the commands on each host over time, as in figures 4.8a and b: NOLB, and the best."""
    best = max((row for row in rows if row.algorithm != NOLB), key=lambda row: row.reduction)
    chosen = [
        next(o for o in outcomes if o.case.load == load and o.case.algorithm == row.algorithm
             and o.case.index == row.index and o.case.replication == 0)
        for row in (rows[0], best)
    ]  # fmt: skip
    canvas = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    pair = canvas.subplots(1, 2, sharey=True)
    for axes, outcome in zip(pair, chosen, strict=True):
        for host, values in present(outcome).items():
            step_s = outcome.elapsed_s / len(values)
            axes.plot([step_s * (x + 0.5) for x in range(len(values))], values, label=host,
                      linewidth=1.0)  # fmt: skip
        axes.set_title(f"{outcome.case.algorithm}, {load} load", fontsize="medium")
        axes.set_xlabel("s")
    pair[0].set_ylabel("commands on the host")
    pair[1].legend(fontsize="x-small")
    return svg(canvas)


def svg(canvas: Figure) -> str:
    out = io.StringIO()
    canvas.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]
