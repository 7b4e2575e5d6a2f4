"""The owner's rules, one at a time and together."""

import pytest

from lbd.config_access import AdmissionConfig
from lbd.lbm.admission import Conditions, Guest, Rules, program_fault
from lbd.windows import Moment

MONDAY_NOON = Moment(0, 12, 13, 3, 0)
ANN = Guest("ann", frozenset({"ann", "staff"}), "h1")


def refusal(guest=ANN, load=0.0, owner="", **config):
    return Rules(AdmissionConfig(**config)).refusal(guest, Conditions(MONDAY_NOON, load, owner))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"users": ("ann",)},
        {"users": ("bob", "a*")},
        {"users": ("bob",), "groups": ("staff",)},  # either will do
        {"origins": ("h?",)},
        {"deny_users": ("bob",), "deny_groups": ("wheel",), "deny_origins": ("h2",)},
        {"when": ("sun", "mon 8:00-18:00")},
        {"load_ceiling": 2.0},
        {"load_ceiling": 1.9},  # as much as that is not above it
    ],
)
def test_admitted(config):
    assert refusal(load=1.9, **config) == ""


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        ({"users": ("bob",)}, "admission.users"),
        ({"groups": ("wheel",)}, "admission.groups"),
        ({"users": ("ann",), "deny_users": ("a*",)}, "admission.deny_users"),
        ({"users": ("ann",), "deny_groups": ("staff",)}, "admission.deny_groups"),
        ({"origins": ("h2", "h3")}, "admission.origins"),
        ({"deny_origins": ("h1",)}, "admission.deny_origins"),
        ({"when": ("mon 18:00-08:00",)}, "admission.when"),
        ({"load_ceiling": 1.5}, "admission.load_ceiling"),
    ],
)
def test_refused_by_the_rule_that_is_named(config, rule):
    assert rule in refusal(load=1.6, **config)


def test_nobody_new_while_the_owner_is_there():
    assert "pts/3" in refusal(owner="pts/3 was used 4 s ago (admission.owner_idle_s)")


@pytest.mark.parametrize(
    ("allowed", "denied", "rule"),
    [
        ((), (), ""),
        (("/usr/bin/gcc*",), (), ""),
        (("/bin/gcc",), (), "programs"),
        ((), ("/usr/bin/*",), "deny_programs"),
        (("/usr/bin/gcc-12",), ("*/gcc*",), "deny_programs"),
    ],
)
def test_programs(allowed, denied, rule):
    assert program_fault("/usr/bin/gcc-12", allowed, denied) == rule
