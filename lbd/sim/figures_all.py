"""Every figure by its name in `lbd sim figure`."""

from lbd.sim import figures_balance, figures_scripts
from lbd.sim.figures import Figure

FIGURES: dict[str, Figure] = {**figures_balance.FIGURES, **figures_scripts.FIGURES}
