"""Command lines with sub-commands, and what is said of wrong ones."""

import json

import pytest

from lbd.cli import lbctl, main
from lbd.cli.program import Parser


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


def test_an_unknown_option_is_named_although_its_value_is_no_good_as_an_argument(capsys):
    assert lbctl.main(["token", "create", "--times", "3"]) == 2
    assert "unrecognized arguments: --times;" in capsys.readouterr().err
    assert lbctl.main(["token", "create", "3"]) == 2
    assert "'3' is not a valid host name" in capsys.readouterr().err
    assert lbctl.main(["token", "--times", "3", "create"]) == 2
    assert "unrecognized arguments: --times;" in capsys.readouterr().err
    assert lbctl.main(["token", "crate", "--any"]) == 2
    assert "no command 'crate'; did you mean" in capsys.readouterr().err
    assert lbctl.main(["drain", "--gently"]) == 2
    assert "unrecognized arguments: --gently;" in capsys.readouterr().err


def test_an_option_is_not_called_unknown_for_its_argument(capsys):
    parser = Parser("p", "")
    parser.add_argument("-n", type=int)
    parser.add_argument("count", type=int)
    for words, said in (
        (["-n5", "x"], "argument count: invalid int value: 'x'"),
        (["-n", "5"], "the following arguments are required: count"),
        (["-n", "-5"], "the following arguments are required: count"),
        (["--", "--x"], "argument count: invalid int value: '--x'"),
    ):
        with pytest.raises(SystemExit):
            parser.parse_args(words)
        assert said in capsys.readouterr().err


def test_the_simulator_takes_no_configuration(capsys):
    assert main.main(["sim", "--config", "/none", "list"]) == 2
    assert "unrecognized arguments: --config" in capsys.readouterr().err
    assert main.main(["--config", "/none", "sim", "list"]) == 2
    assert capsys.readouterr().err == "lbd: lbd sim takes no --config\n"
    assert main.main(["sim", "--help"]) == 0
    assert "--config" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sort", "-cpu_s"], "expected one argument; write --sort=-cpu_s; see lbctl jobs --help"),
        (["--sort", "--all"], "expected one argument; see lbctl jobs --help"),
        (["--all", "--sort"], "expected one argument; see lbctl jobs --help"),
    ],
)
def test_a_value_that_is_taken_for_an_option_is_answered_with_how_to_write_it(capsys, words, said):
    assert lbctl.main(["jobs", *words]) == 2
    assert capsys.readouterr() == ("", f"lbctl jobs: argument --sort: {said}\n")
