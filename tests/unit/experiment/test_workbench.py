"""The cost of a command's units, from the cost of some of them."""

import pytest

from lbd.experiment.workbench import UNITS_MAX, costs


@pytest.mark.parametrize("unit_s", [1.0, 0.01, 3e-4, 1.2e-4, 9e-5, 2e-5])
def test_short_units_are_measured_many_at_a_time(unit_s):
    asked = []

    def cost_s(units):
        asked.append(units)
        return 0.5 + (units - 1) * unit_s

    assert costs(cost_s) == pytest.approx((0.5, unit_s))
    assert max(asked) <= UNITS_MAX
    # the smaller of two, which other programs have disturbed less
    assert asked.count(max(asked)) == 2


def test_a_command_whose_size_costs_nothing_still_has_a_unit():
    assert costs(lambda units: 0.25) == (0.25, 1e-5)
