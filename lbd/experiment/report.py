"""Renders the report: one self-contained HTML file with its drawings inside."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from lbd.experiment import thesis
from lbd.experiment.commands import KINDS
from lbd.experiment.design import (
    INDEX,
    LOCAL_THRESHOLD,
    MIN_GAIN,
    NOLB,
    THESIS_JOB_S,
    UTILISATION_GAIN,
    Design,
    index_of,
)
from lbd.experiment.summary import REPLICATIONS_MIN, Row
from lbd.sim.scripts import LEVELS

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child, .text td { text-align: left; }
pre { background: #f4f4f4; padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.no { color: #a00; } svg { max-width: 100%; height: auto; } small { color: #555; }
"""
DASH = "–"


@dataclass(frozen=True, slots=True)
class Made:
    """Where and how the runs were made."""

    line: str
    machine: str
    when: str
    cores: int  # of this machine
    commands: str


def html(design: Design, made: Made, rows: Sequence[Row], drawings: Sequence[str]) -> str:
    parts = [
        "<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8">',
        "<title>Load balancing, live: lbd lab experiment</title>",
        f"<style>{STYLE}</style></head><body>",
        "<h1>Load balancing on live hosts: Zhou's experiment (1987, chapter 4)</h1>",
        f"<p>{escape(summary_line(design, made))}</p>",
        "<p>The same scripts again:</p>", f"<pre>{escape(made.line)}</pre>",
        f"<p><small>{escape(caveat(design, made, rows))}</small></p>",
    ]  # fmt: skip
    for load in design.loads:
        mine = [row for row in rows if row.load == load]
        if mine:
            parts += [f"<h2>Load: {escape(load)}</h2>", main_table(mine), levels_table(mine)]
    parts += drawings
    parts += ["<h2>By command</h2>", kinds_table(rows), "<h2>What it costs</h2>", cost_table(rows)]
    if claims := thesis.claims(rows):
        parts += ["<h2>What the thesis claims</h2>", claims_list(claims)]
    parts += ["<h2>How it was done</h2>", *how(design, made), "</body></html>"]
    return "\n".join(parts) + "\n"


def summary_line(design: Design, made: Made) -> str:
    return (
        f"{design.hosts} hosts of {design.cpus:g} cores each on one machine ({made.machine}), "
        f"{design.users} users on each busy host, commands of {design.demand_s:g} s of CPU time "
        f"on average, runs of about {design.duration_s:g} s, {design.replications} "
        f"replication{'s' * (design.replications != 1)}; {made.when}."
    )


def caveat(design: Design, made: Made, rows: Sequence[Row]) -> str:
    others = max((row.others_cores for row in rows), default=0.0)
    wanted = design.hosts * design.cpus
    said = (
        f"The hosts share this machine's {made.cores} cores and may use {wanted:.2g} of them at "
        f"most; everything else on it took up to {others:.2f} cores meanwhile."
    )
    if wanted + others > made.cores:
        said += (
            " Together that is more than there is, so hosts were slowed down by each other and by "
            "others: compare the algorithms with one another, not the seconds with other machines."
        )
    return said


def main_table(rows: Sequence[Row]) -> str:
    head = ("algorithm", "index", "commands", "mean response", "± 95 %", "deviation", "saves",
            "± 95 %", "simulated", "printed", "deviation saves", "moved", "of those that may",
            "wrong of moved")  # fmt: skip
    body = []
    for row in rows:
        base = row.algorithm == NOLB
        is_his = row.load == "canonical" and row.index == INDEX
        printed = thesis.MEAN.get(row.algorithm) if is_his else None
        body.append(
            (
                row.algorithm, DASH if base else row.index, str(row.jobs), seconds(row.mean_s),
                seconds(row.mean_ci95_s), seconds(row.sd_s),
                DASH if base else percent(row.reduction), percent(row.reduction_ci95),
                simulated(row), percent(printed), DASH if base else percent(row.sd_reduction),
                percent(row.moved), percent(row.moved_of_eligible),
                percent(row.wrong) if row.moved else DASH,
            )
        )  # fmt: skip
    failed = sum(row.failed for row in rows)
    note = f'<p class="no">{failed} commands failed; they are counted all the same.</p>'
    return table(head, body) + (note if failed else "")


def levels_table(rows: Sequence[Row]) -> str:
    names = list(rows[0].by_level)
    head = ["by the user's host"]
    for name in names:
        head += [f"{LEVELS[name]}: mean response", "hosts' CPU use"]
    body = []
    for row in rows:
        line = [label(row)]
        for name in names:
            mine, _, busy = row.by_level[name]
            line += [seconds(mine), percent(busy)]
        body.append(line)
    return table(head, body)


def kinds_table(rows: Sequence[Row]) -> str:
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.by_kind))
    body = []
    for row in rows:
        cells = [row.by_kind.get(kind) for kind in kinds]
        shown = [
            DASH if cell is None else f"{cell[1]:.2f} s" + gain_text(row, cell) for cell in cells
        ]
        body.append([f"{row.load}, {label(row)}", *shown])
    counts = [next((r.by_kind[k][0] for r in rows if k in r.by_kind), 0) for k in kinds]
    head = ["mean response", *(f"{k} ({n})" for k, n in zip(kinds, counts, strict=True))]
    return table(head, body)


def gain_text(row: Row, cell: tuple[int, float, float]) -> str:
    return "" if row.algorithm == NOLB or not cell[2] else f" ({cell[1] / cell[2] - 1:+.0%})"


def cost_table(rows: Sequence[Row]) -> str:
    head = ("a host", "LIM, % of a core", "LBM, % of a core", "LIM bytes/s", "LBM bytes/s",
            "LIM messages/s", "others, cores")  # fmt: skip
    return table(head, [
        (
            f"{row.load}, {label(row)}", percent(row.lim_cores, 2), percent(row.lbm_cores, 2),
            whole(row.lim_bytes_s), whole(row.lbm_bytes_s), f"{row.messages_s:.2f}",
            f"{row.others_cores:.2f}",
        )
        for row in rows
    ])  # fmt: skip


def claims_list(claims: Sequence[thesis.Claim]) -> str:
    lines = []
    for claim in claims:
        verdict = "holds" if claim.holds else '<b class="no">does not hold</b>'
        lines.append(f"<li>{verdict}: {escape(claim.text)} [{escape(claim.ours)}]</li>")
    return f"<ul>{''.join(lines)}</ul>"


def how(design: Design, made: Made) -> list[str]:
    alone_s = design.demand_s / design.cpus
    intervals = (
        f"by Student's t over {design.replications} replications"
        if design.replications >= REPLICATIONS_MIN
        else "by the jackknife over hosts and replications, and with few of these rather too narrow"
    )
    paragraphs = (
        f"Users wait for each command and think before the next. Commands: {made.commands}. "
        f"{who_may_leave(design)} NOLB is lbrun, too, with nowhere to go, and all algorithms have "
        "the same scripts, in turns.",
        f"A command alone on its host takes {alone_s:.2f} s, in the thesis {THESIS_JOB_S:g} s; so "
        f"its P and T are multiplied by {alone_s / THESIS_JOB_S:.2f}. {thresholds(design)}",
        f"Intervals are of 95 %, {intervals}. Wrong: sent to a host that was no less busy. "
        "Response times are the users'; CPU time of the daemons is the kernel's, bytes are TCP's "
        "payload in and out. Simulated: such scripts placed by the daemons' own code in virtual "
        "time, with the thesis's jobs and costs, on hosts that nothing else disturbs.",
    )
    return [f"<p>{escape(text)}</p>" for text in paragraphs]


def who_may_leave(design: Design) -> str:
    staying = [kind.name for kind in KINDS if kind.name in design.commands and not kind.may_leave]
    if not staying:
        return "All of them may leave their host (through lbrun)."
    return (
        "Half of what users start may leave its host (through lbrun); as in table 4.3 these stay: "
        f"{', '.join(staying)}."
    )


def thresholds(design: Design) -> str:
    said = f"T_l = {LOCAL_THRESHOLD:g} and Δ = {MIN_GAIN:g} are queue lengths"
    if any(index_of(name).measure.utilisation for name in design.indices):
        said += f"; of a utilisation Δ is {UTILISATION_GAIN:g}"
    return f"{said}."


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(head, 'th')}{''.join(line(cells, 'td') for cells in body)}</table>"


def label(row: Row) -> str:
    has_index = row.algorithm != NOLB and row.index != INDEX
    return f"{row.algorithm} {row.index}" if has_index else row.algorithm


def simulated(row: Row) -> str:
    return DASH if row.simulated is None else f"{row.simulated[0]:.1%} ±{row.simulated[1]:.1%}"


def seconds(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f} s"


def percent(value: float | None, digits: int = 1) -> str:
    return DASH if value is None else f"{100 * value:.{digits}f} %"


def whole(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"
