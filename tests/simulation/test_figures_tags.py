"""The TAGS paper's figures: what its text says about them, and where that does not hold."""

import math

import pytest

from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.figures.tags import FIGURES
from lbd.sim.figures.tags_simulated import TagsPoint, TagsRatio, claims, ratio

# Claims that fail, with the reason. The factor ½ that the paper's Least-Work-Remaining lacks is 0.3
# orders of magnitude.
HALF = "½"
FAILING = {
    ("tags-6a", "Least-Work-Remaining is better than Random by about an order"): "0.48",
    ("tags-6a", "at alpha 1.5 by 2 orders"): "1.6",
    ("tags-6a", "at alpha 1 by over 4 orders"): HALF,
    ("tags-6a", "at alpha 0.4 by over 9 orders"): HALF,
    ("tags-6b", "TAGS outperforms the others"): "not at 1.9",
    ("tags-7a", "TAGS outperforms the others"): "not at 1.9",
    ("tags-7b", "TAGS outperforms the others"): "not at 0.2, 0.3, 1.9",
    ("tags-9a", "by over 4 orders of magnitude at alpha 1"): HALF,
    ("tags-9a", "by 7 orders of magnitude at alpha 0.6"): HALF,
    ("tags-9c", "TAGS outperforms the others"): "not at 0.2, 0.3, 1.8, 1.9",
    ("tags-12", "mean slowdown is never over 6"): "over 6: 6.15 at 0.2",
    ("tags-12", "TAGS on 4 hosts is better than on 2"): "1.65 for 0.891 at 1.9",
    ("tags-14", "the coefficient of variation ranges"): "38.5",
    ("tags-15", "TAGS outperforms the others"): "not at 1.8, 1.9",
    ("tags-15", "by over 2 orders of magnitude at alpha 1"): HALF,
}


@pytest.mark.parametrize("name", FIGURES)
def test_claims(name):
    drawing = FIGURES[name].make(Scale(), plain_map)
    for line in drawing.lines:
        assert len(line.x) == len(line.y) >= 10
        assert all(math.isfinite(y) for y in line.y)
    failing = {text: why for (figure, text), why in FAILING.items() if figure == name}
    for claim in drawing.claims:
        (why,) = [failing.pop(t) for t in list(failing) if claim.text.startswith(t)] or [None]
        assert claim.holds == (why is None), claim
        assert why is None or why in claim.ours
    assert not failing


def test_simulated_points():
    for mode in ("tags", "random"):
        found = ratio(TagsPoint(mode, 1.4, 0.3, 2, 2, 1))
        assert found is not None
        assert abs(found.value - 1) < 0.15 + found.interval
        assert f"{found.value:.2f} ± {found.interval:.2f} (2 hosts, load 0.3" in found.shown
    assert ratio(TagsPoint("tags", 1.9, 0.7, 4, 2, 1)) is None


def made(mode, hosts, value, interval=0.05):
    return TagsRatio(TagsPoint(mode, 1.0, 0.5, hosts, 3, 1), value, interval)


@pytest.mark.parametrize(
    ("ratios", "verdicts"),
    [
        ([made("random", 2, 1.0), made("tags", 2, 0.95), made("tags", 4, 0.7)], [True] * 3),
        ([made("random", 2, 1.2)] * 2 + [made("tags", 2, 1.2), made("tags", 4, 1)],
         [False, False, True]),
        ([made("random", 2, 1.0), made("tags", 2, 0.7), made("tags", 4, 0.7)],
         [True, True, False]),
    ],
)  # fmt: skip
def test_claims_of_the_simulation(ratios, verdicts):
    assert [claim.holds for claim in claims(ratios)] == verdicts
