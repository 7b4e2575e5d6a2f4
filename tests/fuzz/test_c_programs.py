"""The C programs, with sanitizers, on their corpus and on mutations of it."""

import os
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import c_programs
from tests.fuzz.targets import mutated
from tests.fuzz.test_corpus import CORPUS, SEED, corpus

sys.path.insert(0, str(Path(__file__).parents[1] / "live"))
from fake_lbm import FakeLbm

MUTATIONS = 25
TARGETS = {
    "spare_steps": c_programs.spare_steps,
    "lbsh_line": c_programs.lbsh_line,
    "front_config": c_programs.front_config,
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    built = c_programs.build(tmp_path_factory.mktemp("sanitized"))
    if built is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no compiler with sanitizers")
    return built


def inputs(name):
    rng, known = Random(SEED), corpus(name)
    return [*known, *(mutated(rng.choice(known), rng) for _ in range(MUTATIONS))]


@pytest.mark.parametrize("name", TARGETS)
def test_any_input(programs, name):
    assert (CORPUS / name).is_dir()
    for data in inputs(name):
        TARGETS[name](programs, data)


def test_any_frames_from_an_lbm(programs, short_dir):
    """The front's LBM sends it `data` and then hangs up."""
    fake = FakeLbm(short_dir)
    try:
        for data in inputs("front_frames"):
            result = fake.run(
                [programs / "lbrun", "-v", "true"],
                lambda connection, _, data=data: connection.sendall(data),
                **{key: c_programs.ENVIRONMENT[key] for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS")},
            )
            c_programs.assert_sound(result, data)
    finally:
        fake.close()


@pytest.fixture
def short_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("f")
