"""Command lines with sub-commands."""

import json

import pytest

from lbd.cli import lbctl


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "config", "show", "lim.port"],
        ["config", "--json", "show", "lim.port"],
        ["config", "show", "lim.port", "--json"],
    ],
)
def test_json_may_come_before_a_subcommand(daemon, words, capsys):
    assert lbctl.main(words) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "lim.port"


@pytest.mark.parametrize("command", ["config", "queue", "authority", "tags", "token"])
def test_every_command_with_subcommands_takes_the_common_options_first(command):
    module = next(name for name, verbs in lbctl.VERBS.items() if command in verbs)
    verb = __import__(module, fromlist=["VERBS"]).VERBS[command]
    ways = {
        "config": ["check"], "queue": ["enable", "h1"], "authority": ["give", "x"],
        "tags": ["show"], "token": ["list"],
    }  # fmt: skip
    parser = verb.parser(f"lbctl {command}", "")
    options = parser.parse_args(["--json", "--config", "x.toml", *ways[command]])
    assert (options.json, options.config) == (True, "x.toml")
    assert parser.parse_args(ways[command]).json is False
