"""The owner's rules, one at a time and together."""

from dataclasses import replace

import pytest

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.admission import Conditions, Guest, Rules, in_words
from lbd.model import Closed
from lbd.text.windows import Moment

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
        {"users": ("bob",), "groups": ("staff",)},  # one of the two is enough
        {"origins": ("h?",)},
        {"deny_users": ("bob",), "deny_groups": ("wheel",), "deny_origins": ("h2",)},
        {"when": ("sun", "mon 8:00-18:00")},
        {"load_ceiling": 2.0},
        {"load_ceiling": 1.9},  # the load is not above the ceiling
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
def test_a_refusal_names_its_rule(config, rule):
    assert rule in refusal(load=1.6, **config)


@pytest.mark.parametrize(
    ("config", "owner", "closed"),
    [
        ({"users": ("bob",)}, "", None),  # others may
        ({"when": ("mon 18:00-08:00",)}, "", Closed.HOURS),
        ({"load_ceiling": 1.5}, "", Closed.LOAD),
        ({}, "pts/3 was used 4 s ago", Closed.OWNER),
    ],
)
def test_other_hosts_are_told_why_nobody_is_admitted(config, owner, closed):
    conditions = Conditions(MONDAY_NOON, 1.6, owner)
    assert Rules(AdmissionConfig(**config)).closed(conditions)[0] is closed


def test_the_line_says_until_when_and_who_may_change_the_rule():
    rules = Rules(AdmissionConfig(when=("mon 18:00-08:00",)))
    closed = rules.refusal(ANN, Conditions(MONDAY_NOON, 0.0, opens="18:00"))
    assert closed == "no commands of other hosts until 18:00 (admission.when)"
    assert refusal(users=("bob",)) == (
        "commands of ann are not allowed here (admission.users); its administrator may change that"
    )
    assert refusal(groups=("lab", "wheel")) == (
        "commands of ann are not allowed here: only those of groups lab, wheel (admission.groups); "
        "its administrator may change that"
    )


NIGHTS = {"groups": ("wheel",), "everybody_when": ("18:00-08:00", "sat,sun")}
NIGHT = Moment(30, 22, 13, 3, 0)


def test_one_group_by_day_and_everybody_by_night():
    rules = Rules(AdmissionConfig(**NIGHTS))
    by_day = Conditions(MONDAY_NOON, 0.0, everybody="18:00")
    assert rules.refusal(ANN, by_day) == (
        "commands of ann are not allowed here: only those of the group wheel (admission.groups); "
        "everybody may from 18:00"
    )
    assert rules.until_everybody(ANN, by_day)
    assert rules.closed(by_day) == (None, ""), "it is not closed for others"
    assert rules.refusal(Guest("root", frozenset({"wheel"}), "h1"), by_day) == ""
    assert rules.refusal(ANN, Conditions(NIGHT, 0.0)) == ""


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"deny_users": ("ann",)}, "admission.deny_users"),
        ({"deny_groups": ("staff",)}, "admission.deny_groups"),
        ({"origins": ("h7",)}, "admission.origins"),
        ({"load_ceiling": 1.0}, "admission.load_ceiling"),
        ({"when": ("3:00-4:00",)}, "admission.when"),
    ],
)
def test_all_other_rules_apply_at_night_too(more, rule):
    rules = Rules(AdmissionConfig(**NIGHTS, **more))
    night = Conditions(NIGHT, 1.5)
    assert rule in rules.refusal(ANN, night)
    by_day = Conditions(MONDAY_NOON, 0.0, everybody="18:00")
    for_good = rule.split("_")[0] in ("admission.deny", "admission.origins")
    assert rules.until_everybody(ANN, by_day) is not for_good


def test_hours_beyond_the_usual_horizon_are_waited_for_too():
    rules = Rules(AdmissionConfig(users=("bob",), everybody_when=("* * 1 * *",)))
    by_day = Conditions(MONDAY_NOON, 0.0)
    assert rules.refusal(ANN, by_day).endswith("(admission.users); everybody may later")
    assert rules.until_everybody(ANN, by_day)


def test_no_new_commands_are_admitted_while_the_owner_is_present():
    """It read `this host's owner`, which elsewhere is the host where one types."""
    used = "pts/3 was used 4 s ago (admission.owner_idle_s)"
    assert refusal(owner=used) == f"its owner is back: {used}"


def test_a_host_that_is_short_of_memory_admits_nothing_new():
    def closed(percent, left=0.0, **config):
        conditions = Conditions(MONDAY_NOON, 0.0, memory_pressure=percent, memory_left=left)
        return Rules(AdmissionConfig(**config)).refusal(ANN, conditions)

    assert closed(20.0) == ""
    assert "short of memory here: all tasks stalled for 35 % of the last 10 s" in closed(35.0)
    assert "admission.memory_pressure" in closed(6.0, memory_pressure=5.0)
    assert closed(99.0, memory_pressure=0.0) == ""
    assert "short of memory here" in closed(35.0, left=0.2)
    assert closed(35.0, left=0.3) == "", "a user's command may stall within a limit of its own"


@pytest.mark.parametrize("names", [("lab", "wheel"), ("lab*",)])
def test_several_groups_are_named_in_the_plural(names):
    [line] = in_words(AdmissionConfig(groups=names))
    assert line == f"takes only commands of groups {', '.join(names)} (admission.groups)"


def test_the_rules_in_words():
    config = AdmissionConfig(
        users=("ann", "bob"), groups=("staff",), deny_groups=("guests",), origins=("h1",),
        programs=("/usr/bin/gcc",), when=("sat,sun", "22:00-06:00"), load_ceiling=1.5,
    )  # fmt: skip
    assert in_words(config) == [
        "takes only commands of users ann, bob or of members of the group staff (admission.users, "
        "admission.groups)",
        "takes no commands of the group guests (admission.deny_groups)",
        "takes only commands from h1 (admission.origins)",
        "runs only /usr/bin/gcc (admission.programs)",
        "takes commands of other hosts only sat,sun, 22:00-06:00 (admission.when)",
        "takes no new commands above a load of 1.5 (admission.load_ceiling)",
    ]
    assert in_words(AdmissionConfig()) == []
    assert in_words(AdmissionConfig(owner_is_back="evict")) == [], "nobody is watched"
    assert in_words(
        AdmissionConfig(owner_idle_s=300.0, owner_load=0.5, owner_is_back="suspend")
    ) == [
        "while a terminal, keyboard or mouse was used within 5m or other programs keep more than "
        "0.5 cores busy, takes no new commands, and suspends those there (admission.owner_idle_s, "
        "admission.owner_load, admission.owner_is_back)"
    ]
    [line] = in_words(AdmissionConfig(owner_idle_s=300.0, owners=("ann", "eve")))
    assert "while a terminal of ann, eve (admission.owners), keyboard or mouse was used" in line
    assert in_words(AdmissionConfig(**NIGHTS)) == [
        "takes only commands of the group wheel, except 18:00-08:00, sat,sun, when it takes "
        "everybody's (admission.groups, admission.everybody_when)"
    ]
    [line, _] = in_words(AdmissionConfig(**NIGHTS, deny_users=("eve",)))
    assert "everybody's (admission.groups" in line


def test_other_rules_have_another_number():
    rules = AdmissionConfig(groups=("staff",))
    numbers = {Rules(one).number for one in (rules, AdmissionConfig(), replace(rules, slots=3))}
    assert len(numbers - {0}) == 3
    assert Rules(AdmissionConfig(groups=("staff",))).number == Rules(rules).number
