"""Learnt commands on disk: intact, written once per burst, set aside when damaged."""

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from lbd.config.schema import Config, EligibilityConfig, HostConfig
from lbd.lbm.learnt_file import CHANGES_AT_ONCE, Eligibility
from lbd.local.json_socket import Refusal
from lbd.policy.invocation import key_of

ANN = 1001


@pytest.fixture
def config(tmp_path):
    return Config(host=HostConfig(name="h1", state_dir=str(tmp_path)))


def stored_runs(config):
    stored = json.loads(Path(config.host.state_dir, "learnt.json").read_bytes())
    return {row[0]: row[2] for row in stored["users"][str(ANN)]["commands"]}


async def test_a_burst_is_one_write_and_the_end_another(config, tmp_path):
    eligible = Eligibility(config, save_pause_s=0.05)
    for _ in range(1000):
        eligible.learn(ANN, "cc -c", 0.5, 0)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2000):
        if (tmp_path / "learnt.json").exists():
            break
        await asyncio.sleep(0.01)
    assert stored_runs(config) == {"cc -c": 1000}
    eligible.learn(ANN, "cc -c", 0.5, 0)
    await eligible.close()
    assert stored_runs(config) == {"cc -c": 1001}
    assert [path.name for path in tmp_path.iterdir()] == ["learnt.json"]
    again = Eligibility(config)
    assert again.judge(ANN, [b"cc", b"-c", b"x.c"], b"/").reason == "long"


async def test_if_nothing_was_learnt_nothing_is_written(config, tmp_path):
    eligible = Eligibility(config)
    eligible.judge(ANN, [b"cc"], b"/")
    eligible.learn(ANN, "cc", 0.5, 127)
    await eligible.close()
    assert list(tmp_path.iterdir()) == []


async def test_an_unwritable_disk_is_one_line(config, tmp_path, caplog):
    eligible = Eligibility(replace(config, host=replace(config.host, state_dir="/proc/no")))
    eligible.learn(ANN, "cc", 0.5, 0)
    with caplog.at_level(logging.WARNING, "lbd.lbm"):
        await eligible.close()
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "cannot save what was learnt about commands"
    ]


def test_a_damaged_file_is_set_aside_with_one_line(config, tmp_path, caplog):
    (tmp_path / "learnt.json").write_text("{")
    with caplog.at_level(logging.WARNING, "lbd.lbm"):
        eligible = Eligibility(config)
    assert len(caplog.records) == 1
    assert (tmp_path / "learnt.damaged").read_text() == "{"
    assert eligible.judge(ANN, [b"cc"], b"/").reason == "new"


@pytest.mark.parametrize(
    "question",
    [
        {"op": "eligible", "command": []},
        {"op": "eligible", "command": "cc"},
        {"op": "eligible", "always": "cc"},
        {"op": "shims", "never": [1]},
    ],
    ids=str,
)
def test_an_invalid_question_is_refused(config, question):
    with pytest.raises(Refusal, match="must be a list"):
        Eligibility(config).answer(question, ANN)


def test_lists_of_the_owner_are_not_those_of_the_users_too(config):
    """Where both have read the same lbd.toml, its `always` is not a request of every user."""
    own = EligibilityConfig(always=("fit",))
    eligible = Eligibility(replace(config, eligibility=own))
    eligible.book.threshold_s = 1.0
    said = eligible.answer({"op": "eligible", "command": ["fit"], "always": ["fit"]}, ANN)
    assert (said["reason"], said["list"]) == ("always", "host")


async def test_an_answer_contains_what_is_known(config):
    eligible = Eligibility(config)
    eligible.learn(ANN, "cc -c", 0.5, 0)
    said = eligible.answer({"op": "eligible", "command": ["cc", "-c", "x.c"]}, ANN)
    assert (said["key"], said["eligible"], said["cpu_s"], said["runs"]) == ("cc -c", True, 0.5, 1)
    eligible.learn(ANN, "sh", 5.0, 0)  # by an lbrun; a shell would keep it all the same
    rows = eligible.answer({"op": "eligible"}, ANN)["commands"]
    found = [(row["key"], row["eligible"], row["reason"], row["list"]) for row in rows]
    assert found == [("cc -c", True, "long", None), ("sh", False, "never", "built-in")]
    assert eligible.answer({"op": "eligible"}, ANN + 1)["commands"] == []
    await eligible.close()


def test_the_estimate_for_the_next_run_is_what_was_learnt_from_the_last(config):
    eligible = Eligibility(config)
    assert eligible.expected(ANN, key_of([b"cc", b"-c", b"x.c"]))[0] == 0.0
    eligible.book.measured(ANN, "cc -c", 0.5, 0.0)
    assert eligible.expected(ANN, key_of([b"cc", b"-c", b"y.c"]))[0] == 0.5
    assert eligible.expected(ANN + 1, key_of([b"cc", b"-c", b"y.c"]))[0] == 0.0


@pytest.mark.parametrize(
    ("never", "fault"),
    [
        (["*a" * 40 + str(n) for n in range(200)], "too many wildcards"),
        (["x" * 90 + f"*{n}" for n in range(200)], "patterns that are too long"),
    ],
)
async def test_no_list_takes_a_tenth_of_a_second_to_compile(config, never, fault):
    eligible = Eligibility(config)
    with pytest.raises(Refusal, match=fault):
        eligible.answer({"op": "shims", "never": never}, ANN)
    assert eligible.answer({"op": "shims", "never": ["*-gcc", "x" * 90]}, ANN)["shimless"]


async def test_lists_that_change_all_the_time_hold_up_nobody(config):
    """Each is compiled. Sending the same lists again and again does not count."""
    eligible = Eligibility(config)
    for n in range(CHANGES_AT_ONCE):
        eligible.answer({"op": "shims", "never": [f"*{n}"]}, ANN)
    with pytest.raises(Refusal, match="too often"):
        eligible.answer({"op": "shims", "never": ["*x"]}, ANN)
    for _ in range(2 * CHANGES_AT_ONCE):
        eligible.answer({"op": "shims", "never": [f"*{CHANGES_AT_ONCE - 1}"]}, ANN)
    eligible.answer({"op": "shims", "never": ["*x"]}, ANN + 1)
