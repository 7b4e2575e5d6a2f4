"""The fuzzers' corpus, and as much again at random, in the ordinary tests.

The random numbers are seeded by `FUZZ_SEED`, or else are always the same. A failure prints the seed
and the input.
"""

import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, mutated

CORPUS = Path(__file__).parent / "corpus"
SEED = int(os.environ.get("FUZZ_SEED", "1"))
MUTATIONS = 150
SLOW = {"staged_archive": 30, "lim_conversation": 40}


def corpus(name):
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name):
    for data in corpus(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_mutated(name):
    rng, known = Random(SEED), corpus(name)
    for _ in range(SLOW.get(name, MUTATIONS)):
        data = mutated(rng.choice(known), rng)
        try:
            TARGETS[name](data)
        except Exception as problem:
            raise AssertionError(f"FUZZ_SEED={SEED} {name}: {data!r}") from problem


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name):
    @seeded(SEED)
    @settings(max_examples=SLOW.get(name, 100), database=None, deadline=None)
    @given(st.binary(max_size=200))
    def holds(data):
        TARGETS[name](data)

    holds()


def test_there_is_a_corpus_for_each_target():
    assert {path.name for path in CORPUS.iterdir()} == {*TARGETS, *C_TARGETS}


C_TARGETS = ("front_config", "front_frames", "lbsh_line", "spare_steps")
