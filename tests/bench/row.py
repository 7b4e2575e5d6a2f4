"""One line of the table: ours, the rival's, the ratio, the target, and whether it is reached."""

from dataclasses import asdict, dataclass

from tests.bench.measure import NOISY_CORE_SHARE, Summary


@dataclass(frozen=True, slots=True)
class Bound:
    """A target for the ratio to the rival or for our own value."""

    limit: float
    at_least: bool = False
    of_ratio: bool = True

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}{' x' if self.of_ratio else ''}"

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    figure: str
    unit: str
    ours: Summary
    rival_name: str = ""
    rival: Summary | None = None
    asked: Bound | None = None
    others: float | None = None  # CPU of others meanwhile, in cores
    note: str = ""
    # The 95 % interval of our own value, if that is random: the verdict counts only if all of it is
    # on one side of the bound.
    interval: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours.median / self.rival.median if self.rival else None

    @property
    def low_ratio(self) -> float | None:
        """The ratio of the tenth percentiles: what a quiet machine would show."""
        return self.ours.low / self.rival.low if self.rival else None

    @property
    def verdict(self) -> str:
        if self.asked is None:
            return ""
        value = self.ratio if self.asked.of_ratio else self.ours.median
        if value is None:
            return "no rival"
        if self.interval is not None:
            low, high = (self.asked.reached(end) for end in self.interval)
            if low is not high:
                return "undecided"
        return "ok" if self.asked.reached(value) else "SHORT"

    def as_json(self) -> dict[str, object]:
        more = {"ratio": self.ratio, "low_ratio": self.low_ratio, "verdict": self.verdict}
        return asdict(self) | {"asked": str(self.asked) if self.asked else None} | more


HEADINGS = (
    "figure", "unit", "ours median", "p95", "rival", "median", "p95", "ratio", "(p10)", "asked",
    "others", "verdict",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    rival = row.rival
    noisy = " noisy" if row.others is not None and row.others > NOISY_CORE_SHARE else ""
    return [
        row.figure,
        row.unit,
        shown(row.ours.median),
        shown(row.ours.p95),
        row.rival_name,
        shown(rival.median) if rival else "",
        shown(rival.p95) if rival else "",
        f"{row.ratio:.2f}" if row.ratio is not None else "",
        f"{row.low_ratio:.2f}" if row.low_ratio is not None else "",
        str(row.asked or ""),
        f"{row.others:.0%}{noisy}" if row.others is not None else "",
        row.verdict,
    ]


def shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(headings: tuple[str, ...], lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in (list(headings), *lines)) for i in range(len(headings))]
    rows = [list(headings), ["-" * width for width in widths], *lines]
    text = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in text)
