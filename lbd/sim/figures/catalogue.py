"""All figures by their names in `lbd sim figure`, in the papers' order."""

from lbd.sim.figures import (
    balance,
    downey,
    downey_jobs,
    he,
    hosts,
    own,
    scripts,
    tags,
    tags_simulated,
)
from lbd.sim.figures.figure import Figure


def place(name: str) -> tuple[list[int], str]:
    """Returns a sort key that puts zhou-3.10 after zhou-3.9."""
    number = name.removeprefix("zhou-").rstrip("ab")
    return [int(part) for part in number.split(".")], name


ZHOU = balance.FIGURES | hosts.FIGURES | scripts.FIGURES
DOWNEY = downey.FIGURES | downey_jobs.FIGURES
FIGURES: dict[str, Figure] = {
    **{name: ZHOU[name] for name in sorted(ZHOU, key=place)},
    **tags.FIGURES,
    **tags_simulated.FIGURES,
    **{name: DOWNEY[name] for name in sorted(DOWNEY)},
    **he.FIGURES,
    **own.FIGURES,
}
