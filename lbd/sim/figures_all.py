"""Every figure by its name in `lbd sim figure`, in the papers' order."""

from lbd.sim import (
    figures_balance,
    figures_hosts,
    figures_own,
    figures_scripts,
    figures_tags,
    figures_tags_simulated,
)
from lbd.sim.figures import Figure


def place(name: str) -> tuple[bool, list[int], str]:
    """zhou-3.10 comes after zhou-3.9."""
    number = name.removeprefix("zhou-").rstrip("ab")
    parts = [int(part) for part in number.split(".")] if name.startswith("zhou-") else []
    return not parts, parts, name


BY_NAME: dict[str, Figure] = {
    **figures_balance.FIGURES,
    **figures_hosts.FIGURES,
    **figures_scripts.FIGURES,
}
FIGURES: dict[str, Figure] = {
    **{name: BY_NAME[name] for name in sorted(BY_NAME, key=place)},
    **figures_tags.FIGURES,
    **figures_tags_simulated.FIGURES,
    **figures_own.FIGURES,
}
