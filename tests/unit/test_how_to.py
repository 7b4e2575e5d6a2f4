"""The commands on the pages on malleable jobs, owners and predictions are valid."""

import configparser
import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from lbd.cli.lbctl import VERBS
from lbd.client.options import read_options
from lbd.config.load import load

PAGES = Path(__file__).parents[2] / "docs/how-to"
NAMES = ("malleable-jobs.md", "owners.md", "predict.md")


def blocks(kind):
    for name in NAMES:
        text = (PAGES / name).read_text()
        yield from re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def commands(program):
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))[0] == program]


def test_the_pages_contain_commands():
    assert commands("lbrun")
    assert commands("lbctl")


@pytest.mark.parametrize("words", commands("lbrun"), ids=shlex.join)
def test_lbrun_accepts_them(words):
    assert read_options(words[1:]).command


@pytest.mark.parametrize("words", commands("lbctl"), ids=shlex.join)
def test_lbctl_accepts_them(words):
    module = next(name for name, verbs in VERBS.items() if words[1] in verbs)
    verb = import_module(module).VERBS[words[1]]
    verb.parser(words[1], "").parse_args(words[2:])


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_the_settings_exist(text, tmp_path):
    path = tmp_path / "lbd.toml"
    path.write_text(text)
    config = load(str(path))
    assert (config.dispatch.malleable, config.admission.owner_is_back) != ("free", "keep")


def test_the_drop_in_for_a_ledger_on_a_disk_of_its_own_is_what_its_unit_needs(tmp_path):
    """One had to make the disk, its owner and the drop-in up oneself."""
    page = (PAGES / "monitor.md").read_text()
    (block,) = re.findall(r"```sh\n(systemctl stop lbd-dispatcher.*?)```", page, re.DOTALL)
    steps = [line.split()[0] for line in block.splitlines()]
    assert steps.index("mount") < steps.index("chown") < steps.index("cp")
    (made,) = re.findall(r"^unit=.*?\nprintf .*?>\S+$", block, re.DOTALL | re.MULTILINE)
    command, _, path = made.rpartition(">")
    assert path.startswith("/etc/systemd/system/lbd-dispatcher.service.d/")
    unit = configparser.ConfigParser()
    unit.read_string(
        subprocess.run(("sh", "-c", command), check=True, capture_output=True, text=True).stdout
    )
    assert unit["Unit"]["Wants"] == unit["Unit"]["After"] == "srv-ledger.mount"
    assert unit["Service"]["ReadWritePaths"] == "/srv/ledger"
