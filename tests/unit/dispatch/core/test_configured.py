"""How the dispatcher reads its configuration, and what it refuses in one line."""

import pytest

from lbd.config.dispatch import MODES
from lbd.config.schema import Config, DispatchConfig, TagsConfig
from lbd.dispatch.core.configured import make_discipline
from lbd.errors import ConfigError


def made(mode="tags", **tags):
    return make_discipline(Config(dispatch=DispatchConfig(mode=mode), tags=TagsConfig(**tags)))


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_has_its_discipline(mode):
    file = type(made(mode)).__module__.rpartition(".")[2]
    assert file.removesuffix("_").replace("_", "-") == mode


@pytest.mark.parametrize("mode", ["tags", "sita-e"])
def test_cutoffs_are_given_or_solved(mode):
    assert made(mode, cutoffs_s=(1.0, 2.0)).cutoffs_s == (1.0, 2.0)
    assert made(mode).cutoffs_s == ()
    assert made(mode, tiers=("h1:1", "h2:1,2")).cutoffs_s == ()


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"cutoffs_s": (2.0, 1.0)}, "needs increasing cutoffs above 0: 2, 1"),
        ({"cutoffs_s": (0.0, 1.0)}, "above 0"),
        ({"tiers": ("h1:1", "h2:1")}, "needs at least two tiers"),
        ({"tiers": ("h1:0",)}, "must be a host and its tiers, like h1:1,2"),
        ({"tiers": ("h1",)}, "must be a host and its tiers, like h1:1,2"),
    ],
)
def test_impossible_tiers_are_refused(tags, said):
    with pytest.raises(ConfigError, match=said) as problem:
        made(**tags)
    assert "\n" not in str(problem.value)


def test_an_unknown_objective_is_refused():
    with pytest.raises(ConfigError, match="slowdown"):
        TagsConfig(objective="speed")
