"""Every figure by its name in `lbd sim figure`."""

from lbd.sim import figures_balance, figures_scripts, figures_tags, figures_tags_simulated
from lbd.sim.figures import Figure

FIGURES: dict[str, Figure] = {
    **figures_balance.FIGURES,
    **figures_scripts.FIGURES,
    **figures_tags.FIGURES,
    **figures_tags_simulated.FIGURES,
}
