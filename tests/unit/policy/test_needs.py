"""What a host lacks of a command's needs, and how needs are encoded between hosts."""

from dataclasses import replace

import pytest

from lbd.model import NO_NEEDS, Facts, Needs
from lbd.policy.needs import (
    counted_peak,
    jobs_at_once,
    jobs_now,
    joined,
    needed,
    offer,
    part_of,
    taken_by_others,
    too_little_memory,
    unmet,
    with_features,
)
from lbd.text.needs_words import (
    are_needs,
    needs_text,
    read_facts,
    read_features_text,
    read_needs_text,
    read_resources_text,
    resources_text,
)

HOST = Facts(("big", "linux"), (("gpu", 2, 0), ("scratch", 200 << 30, 0)), 8 << 30)
GPU = Needs((("gpu", 1),))
UNREPORTED = "has not reported its resources (its LBM does not answer)"


def used(*, memory_given=0, **amounts):
    there = tuple((name, total, amounts.get(name, 0)) for name, total, _ in HOST.resources)
    return replace(HOST, resources=there, memory_given=memory_given)


@pytest.mark.parametrize(
    ("needs", "facts", "why", "later"),
    [
        (GPU, used(gpu=1), None, None),
        (GPU, used(gpu=2), "both gpus in use", True),
        (Needs((("gpu", 2),)), used(gpu=1), "1 of 2 gpus free, not 2", True),
        (Needs((("gpu", 3),)), HOST, "has 2 gpus, not 3", False),
        (Needs((("tape", 1),)), HOST, "no tape", False),
        (GPU, Facts(("x",), (("gpu", 1, 1),)), "its gpu is in use", True),
        (GPU, Facts(("x",), (("gpu", 4, 4),)), "all 4 gpus in use", True),
        (GPU, Facts(("x",), (("gpu", 1, 2),)), "its gpu is in use", True),  # there were more
        (Needs((("scratch", 300 << 30),)), HOST, "has 200.0G scratch, not 300.0G", False),
        (
            Needs((("scratch", 100 << 30),)), used(scratch=150 << 30),
            "50.0G of 200.0G scratch free, not 100.0G", True,
        ),
        (Needs(features=("big",)), HOST, None, None),
        (Needs(features=("small",)), HOST, "no feature small", False),
        (Needs(not_features=("big",)), HOST, "has the feature big", False),
        (Needs(not_features=("small",)), HOST, None, None),
        (Needs(memory_bytes=9 << 30), HOST, "has 8.0G memory, not 9.0G", False),
        (
            Needs(memory_bytes=4 << 30), used(memory_given=6 << 30),
            "2.0G of 8.0G memory free, not 4.0G", True,
        ),
        (Needs(memory_bytes=4 << 30), Facts(), None, None),  # the total is unknown
        (Needs((("gpu", 2),)), Facts(("x",), (("gpu", 1, 0),)), "has 1 gpu, not 2", False),
        (GPU, Facts(), UNREPORTED, False),
        (NO_NEEDS, Facts(), None, None),
    ],
)  # fmt: skip
def test_what_a_host_lacks(needs, facts, why, later):
    found = unmet(needs, facts)
    assert (found and found.why, found and found.later) == (why, later)


def test_a_permanent_lack_is_named_before_a_temporary_one():
    needs = Needs((("gpu", 1), ("tape", 1)))
    assert unmet(needs, used(gpu=2)) == ("no tape", False)
    both = Needs((("gpu", 1), ("scratch", 200 << 30)))
    assert unmet(both, used(gpu=2, scratch=1)).why == "both gpus in use", "the first of two"


@pytest.mark.parametrize(
    ("needs", "facts", "at_once", "now"),
    [
        (NO_NEEDS, HOST, None, None),
        (Needs(features=("big",)), HOST, None, None),
        (GPU, used(gpu=1), 2, 1),
        (GPU, Facts(("x",), (("gpu", 1, 2),)), 1, 0),  # there were more
        (Needs((("tape", 1),)), HOST, 0, 0),
        (Needs((("gpu", 1), ("scratch", 50 << 30))), used(scratch=150 << 30), 2, 1),
        (Needs((("gpu", 1), ("scratch", 200 << 30))), HOST, 1, 1),
        (Needs(memory_bytes=3 << 30), used(memory_given=3 << 30), 2, 1),
        (Needs((("gpu", 1),), memory_bytes=8 << 30), HOST, 1, 1),
        (Needs(memory_bytes=3 << 30), Facts(), None, None),
    ],
)
def test_for_how_many_jobs_a_host_has_enough(needs, facts, at_once, now):
    assert (jobs_at_once(needs, facts), jobs_now(needs, facts)) == (at_once, now)


def test_resources_given_out_meanwhile_are_counted_as_well():
    facts = used(gpu=1, memory_given=3)
    assert joined(facts, {"gpu": 1}, 4) == used(gpu=2, memory_given=7)
    assert joined(facts, {}, 4) == used(gpu=1, memory_given=7)
    assert joined(facts, {"gpu": 1}, 0) == used(gpu=2, memory_given=3)
    assert joined(facts, {}, 0) == facts


@pytest.mark.parametrize(("amount", "taken"), [(1, set()), (2, {"gpu"}), (3, set())])
def test_others_have_taken_what_the_host_would_have_enough_of(amount, taken):
    assert taken_by_others(Needs((("gpu", amount),)), used(gpu=1)) == taken


def test_a_rule_may_require_further_features():
    asked = Needs((("gpu", 1),), ("big",), ("slow",))
    both = with_features(asked, Needs(features=("avx2", "big"), not_features=("old",)))
    assert both == Needs((("gpu", 1),), ("avx2", "big"), ("old", "slow"))
    assert with_features(asked, NO_NEEDS) == asked


NEEDS = Needs((("gpu", 2), ("scratch", 50 << 30)), ("avx2", "big"), ("slow",), 1 << 30, 1 << 30)


def test_needs_are_read_as_they_were_written():
    assert are_needs(needs_text(NEEDS))
    assert read_needs_text(needs_text(NEEDS)) == NEEDS
    assert read_needs_text(needs_text(NO_NEEDS)) == NO_NEEDS
    assert needed(NEEDS) == (
        "2 gpus, 50.0G scratch, the feature avx2, the feature big, no feature slow, 1.0G memory"
    )


def test_one_of_a_resource_is_named_with_its_article():
    one_each = Needs((("atlas-port", 1), ("gpu", 1), ("licences", 1)))
    assert needed(one_each) == "an atlas-port, a gpu, licences"
    assert needed(Needs((("licences", 2), ("tape", 5000)))) == "2 licences, 4.9K tape"


def test_little_memory_is_memory_too():
    assert unmet(Needs(memory_bytes=200), Facts(memory_total=100)).why == "has 100 memory, not 200"


def test_what_a_host_offers_is_what_it_has_when_nothing_is_used():
    assert offer(used(gpu=1, scratch=7, memory_given=5)) == HOST


@pytest.mark.parametrize(
    "text",
    [
        "gpu=0", "gpu=-1", "=1", "gpu=1 gpu=1", "9=1", "gpu=x", "+", "-9", "memory=x", " ",
        "memory=1 memory=2", "~", "~x", "~1 ~2",
        "memory=99999999999999999999", "gpu=1\n", "gpu=99999999999999999999",
        "a=1 " * 60 + "b=1", "+" + "x" * 33, "gpu=1  big=1", "gpu=\u0663",
    ],
)  # fmt: skip
def test_impossible_needs_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_needs_text(text)
    assert not are_needs(text)


def test_facts_are_read_as_they_were_written():
    facts = used(gpu=1, memory_given=5)
    texts = " ".join(facts.features), resources_text(facts)
    assert read_facts(*texts, facts.memory_total, facts.memory_given) == facts


@pytest.mark.parametrize(
    "text", ["gpu", "gpu:1", "gpu:1:x", "gpu:1:1:1", "b:1:1 a:1:1", "a:1:1 a:1:1", ":1:1", " "]
)
def test_impossible_resources_of_another_host_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        read_resources_text(text)


def test_no_host_reports_more_than_is_kept_of_it():
    many = " ".join(f"r{n:03}:1:0" for n in range(17))
    with pytest.raises(ValueError, match=r"."):
        read_resources_text(many)
    with pytest.raises(ValueError, match=r"."):
        read_features_text(" ".join(f"f{n:03}" for n in range(65)))
    with pytest.raises(ValueError, match=r"."):
        read_features_text("b a")
    with pytest.raises(ValueError, match=r"."):
        read_facts("a", "", 1 << 63, 0)


GIB = 1 << 30


@pytest.mark.parametrize(
    ("learnt", "limit", "counted"),
    [
        (0, 0, 0), ((256 << 20) - 1, 0, 0), (256 << 20, 0, 256 << 20), (GIB, 0, GIB),
        (GIB + 1, 0, GIB + GIB // 4),
        (3 * GIB - 1, 0, 3 * GIB), (8 * GIB, 2 * GIB, 2 * GIB), (GIB, 2 * GIB, GIB),
        ((1 << 63) - 1, 0, (1 << 63) - 1),
    ],
)  # fmt: skip
def test_a_learnt_peak_is_rounded_up_to_one_of_a_few_values(learnt, limit, counted):
    assert counted_peak(learnt, limit) == counted


@pytest.mark.parametrize(
    ("total", "available", "given", "why"),
    [
        (8, 4, 0, ""), (8, 3, 0, ""),
        (8, 2, 0, "2.0G memory available, but the command has used up to 3.0G"),
        (8, 8, 6, "2.0G memory available, but the command has used up to "
                  "3.0G"),  # given, and not yet taken
        (8, 8, 9, "0 memory available, but the command has used up to 3.0G"),
        (0, 0, 0, ""),  # unknown
    ],
)  # fmt: skip
def test_a_host_is_skipped_if_a_learnt_peak_does_not_fit(total, available, given, why):
    needs, facts = Needs(peak_bytes=3 * GIB), Facts(memory_given=given * GIB)
    memory = (total * GIB, available * GIB)
    assert too_little_memory(NO_NEEDS, facts, memory) == ""
    found = too_little_memory(needs, facts, memory)
    assert found == why
    assert unmet(needs, facts) is None  # it is not a requirement
    assert too_little_memory(NO_NEEDS, facts, (total * GIB, available * GIB)) == ""


def test_a_part_of_needs_contains_only_what_is_named():
    whole = Needs((("gpu", 1), ("scratch", 5)), ("big",), memory_bytes=7)
    assert part_of(whole, {"scratch"}) == Needs((("scratch", 5),))
    assert part_of(whole, {"gpu", "memory"}) == Needs((("gpu", 1),), memory_bytes=7)
