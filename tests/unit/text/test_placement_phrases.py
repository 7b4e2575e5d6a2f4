"""Why a command runs where it does, in words."""

import re
from pathlib import Path

import pytest

import lbd.policy
from lbd.text.placement_phrases import (
    PHRASES,
    HostSeen,
    LoadsSeen,
    hosts_seen,
    why_not_here,
    why_placed,
)

SEEN = LoadsSeen(0.0512, 0.7, 0.1, 1.0, 2.8)
BELOW = "its load now, 0.05, is below 0.70 (lim.local_threshold)"
LOWEST = "its load will be 1.00, the lowest of the hosts that accept commands now"


@pytest.mark.parametrize(
    ("reason", "algorithm", "seen", "said"),
    [
        ("below-threshold", "GLOBAL", SEEN, BELOW),
        ("below-threshold", "P2C", SEEN, BELOW),
        ("below-threshold", "GLOBAL", LoadsSeen(0.0, 0.0),
         "its load now, 0.00, is no more than 0.00 (lim.local_threshold)"),
        ("below-threshold", "", None, "the load is within lim.local_threshold"),
        ("lowest", "GLOBAL", SEEN, f"{LOWEST}; here it would be 2.80"),
        ("lowest", "GLOBAL", LoadsSeen(chosen_with_it=1.0), LOWEST),
        ("lowest", "GLOBAL", LoadsSeen(chosen_with_it=1.0, as_low=("h3", "h4", "h5")),
         f"{LOWEST}; h3 and 2 more are as low"),
        ("lowest", "P2C", SEEN, "the command and those already there would finish soonest"),
        ("no-gain", "GLOBAL", SEEN, "no other host is better by more than 0.10 (lim.min_gain)"),
        ("wanted", "GLOBAL", SEEN, "-H was given"),
        ("of-a-later-release", "GLOBAL", SEEN, "of a later release"),
    ],
)  # fmt: skip
def test_the_reason_contains_its_numbers(reason, algorithm, seen, said):
    assert why_placed(reason, algorithm, seen) == said


H1, H2, H3 = HostSeen("h1", 1.32, ""), HostSeen("h2", 1.2, ""), HostSeen("h3", 2.0, "")
FULL, DRAINED = HostSeen("h2", 0.5, "no free slot"), HostSeen("h3", None, "drained")


@pytest.mark.parametrize(
    ("reason", "algorithm", "others", "own", "said"),
    [
        ("no-gain", "GLOBAL", [H2, H3], H1, "load with it: h2 1.20, h1 1.32"),
        ("lowest", "LOWEST", [H2], None, "load with it: h2 1.20"),
        ("lowest", "PREDICT", [H2], H1, ""),
        ("lowest", "GLOBAL", [], None, ""),
        ("no-free-slot", "GLOBAL", [FULL, DRAINED], H1, "h2: no free slot, h3: drained"),
        ("no-willing-host", "GLOBAL", [DRAINED], H1, "h3: drained"),
        ("below-threshold", "GLOBAL", [], H1, ""),
    ],
)
def test_what_was_compared_is_kept(reason, algorithm, others, own, said):
    assert hosts_seen(reason, algorithm, others, own) == said


def test_of_a_low_load_it_is_kept_with_the_threshold():
    loads = LoadsSeen(0.456, 0.7)
    assert hosts_seen("below-threshold", "GLOBAL", [], H1, loads) == "load 0.46, threshold 0.70"


def test_but_not_more_than_a_record_has_room_for():
    many = [HostSeen("h" * 63, 0.5, "no free slot")] * 16
    assert len(hosts_seen("no-free-slot", "GLOBAL", many, H1)) == 120


@pytest.mark.parametrize(
    ("reason", "algorithm", "seen", "said"),
    [
        ("lowest", "GLOBAL", SEEN,
         "--remote was given; its load will be 1.00, the lowest of the other hosts that accept "
         "commands now"),
        ("lowest", "P2C", SEEN,
         "--remote was given; the command and those already there would finish soonest"),
        ("random", "RANDOM", None, "--remote was given; picked at random (RANDOM)"),
        ("wanted", "GLOBAL", SEEN, "-H was given"),
    ],
)  # fmt: skip
def test_a_command_that_must_leave_is_not_said_to_have_left_because_of_loads(
    reason, algorithm, seen, said
):
    assert why_placed(reason, algorithm, seen, why_not_here(remote=True)) == said


def test_the_request_of_the_user_for_another_host():
    assert why_not_here(remote=True, excluded="h1") == "--remote was given"
    assert why_not_here(remote=False, excluded="h1") == "-x h1 was given"
    assert why_not_here(remote=False) == ""


def test_every_reason_of_a_policy_has_words():
    """As the policies write them: the last argument of `here(view, "no-gain")` and the like."""
    texts = [path.read_text() for path in Path(lbd.policy.__path__[0]).glob("*.py")]
    word = r"\"[a-z]+(?:-[a-z]+)*\""
    calls = rf"\b(?:here|there|Placement)\([^\n]*?({word})(?: if [^\n]* else ({word}))?"
    found = {word.strip('"') for text in texts for pair in re.findall(calls, text) for word in pair}
    assert {"lowest", "below-threshold", "no-gain", "no-reservation"} <= found
    assert found - {""} <= PHRASES.keys()
