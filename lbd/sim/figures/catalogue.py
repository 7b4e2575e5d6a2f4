"""All figures by their names in `lbd sim figure`, in the papers' order."""

from lbd.sim.figures import balance as figures_balance
from lbd.sim.figures import downey as figures_downey
from lbd.sim.figures import downey_jobs as figures_downey_jobs
from lbd.sim.figures import he as figures_he
from lbd.sim.figures import hosts as figures_hosts
from lbd.sim.figures import own as figures_own
from lbd.sim.figures import scripts as figures_scripts
from lbd.sim.figures import tags as figures_tags
from lbd.sim.figures import tags_simulated as figures_tags_simulated
from lbd.sim.figures.figure import Figure


def place(name: str) -> tuple[bool, list[int], str]:
    """Returns a sort key that puts zhou-3.10 after zhou-3.9."""
    number = name.removeprefix("zhou-").rstrip("ab")
    parts = [int(part) for part in number.split(".")] if name.startswith("zhou-") else []
    return not parts, parts, name


BY_NAME: dict[str, Figure] = {
    **figures_balance.FIGURES,
    **figures_hosts.FIGURES,
    **figures_scripts.FIGURES,
}
DOWNEY: dict[str, Figure] = {**figures_downey.FIGURES, **figures_downey_jobs.FIGURES}
FIGURES: dict[str, Figure] = {
    **{name: BY_NAME[name] for name in sorted(BY_NAME, key=place)},
    **figures_tags.FIGURES,
    **figures_tags_simulated.FIGURES,
    **{name: DOWNEY[name] for name in sorted(DOWNEY)},
    **figures_he.FIGURES,
    **figures_own.FIGURES,
}
