"""Command lines for all our programs, except for daemons that are started with plain words
(`plain_words`): argparse and its imports take 0.8 MiB."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from shutil import get_terminal_size
from typing import NoReturn

import lbd
from lbd.cli.complaints import COMPLAINT_CHARS_MAX, EXIT_USAGE, Errors, for_stderr
from lbd.console.errors import json_error
from lbd.text.fitted_help import fitted
from lbd.text.one_line import one_line
from lbd.text.spelling import hint, nearest

QUOTE = "'"
SHORT = len("-x")
# argparse's message about a word that is not allowed
CHOICE = re.compile(r"^argument ([^ :]+): invalid choice: (.+) \(choose from (.+)\)$")
NO_VALUE = re.compile(r"^argument (--[^ :/]+): expected one argument$")

# argparse's messages about a word that is no option, or one that is missing
OF_POSITIONAL = re.compile(r"argument [^-]|the following arguments are required: [^-]")


class Parser(argparse.ArgumentParser):
    """Changes argparse: one-line errors, no abbreviated options, and examples in --help."""

    elsewhere: Mapping[str, str] = {}  # words of other programs, and what to do here instead
    is_of_subcommand = False
    words: Sequence[str] = ()  # that it parses

    def __init__(self, prog: str, description: str, examples: Sequence[str] = ()) -> None:
        lines = "".join(f"  {line}\n" for line in examples)
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"examples:\n{lines}" if lines else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def format_help(self) -> str:
        return fitted(super().format_help(), get_terminal_size().columns)

    def parse_known_args(  # type: ignore[override]  # the stubs allow any class of namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        self.words = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if OF_POSITIONAL.match(message) and (unknown := self._unknown_option(message)):
            message = f"unrecognized arguments: {unknown}"  # its value was taken for another
        message = CHOICE.sub(self._not_a_choice, message, count=1) + self._joined(message)
        said = one_line(message + self._nearest_option(message), COMPLAINT_CHARS_MAX)
        see = f"see {self.prog} --help"
        if Errors.as_json:
            self.exit(EXIT_USAGE, json_error("usage", said, see) + "\n")
        self.exit(EXIT_USAGE, for_stderr(f"{self.prog}: {said}; {see}") + "\n")

    def _unknown_option(self, message: str) -> str:
        """Returns the first word that looks like an option and is none, "" for none. What comes
        after a sub-command that does not exist may be its own."""
        found = CHOICE.match(message)
        ends = ("--", found[2].strip(QUOTE) if found else "--")
        for word in self.words:
            if word in ends:
                break
            name = word.partition("=")[0] if word.startswith("--") else word[:SHORT]
            is_number = self._negative_number_matcher.match(word)
            if name[:1] == "-" != name and not (is_number or name in self._option_string_actions):
                return word
        return ""

    def _not_a_choice(self, found: re.Match[str]) -> str:
        name, given, choices = found.groups()
        word = given.strip(QUOTE)
        if name not in self._option_string_actions:
            name = name.lower()
            if word in self.elsewhere:
                return f"no {name} {given}; {self.elsewhere[word]}"
        return f"no {name} {given}; {hint(word, choices.replace(QUOTE, '').split(', '))}"

    def _joined(self, message: str) -> str:
        """Returns how to write a value that was taken for an option: `--sort=-cpu_s`."""
        found = NO_VALUE.match(message)
        for name, value in pairwise(self.words if found else ()):
            is_option = value in self._option_string_actions or value == "--"
            if found and name == found[1] and value[:1] == "-" and not is_option:
                return f"; write {name}={value}"
        return ""

    def _nearest_option(self, message: str) -> str:
        """Returns a suggestion to add to argparse's message about an unknown option."""
        unknown, found, words = message.partition("unrecognized arguments: ")
        word = words.partition(" ")[0].partition("=")[0]
        if unknown or not found or not word.startswith("-"):
            return ""
        if word in self.elsewhere:
            return f"; {self.elsewhere[word]}"
        near = nearest(word, self._option_string_actions)
        if len(word) == SHORT:  # the only long option with this letter
            long = [name for name in self._option_string_actions if name.startswith(f"-{word}")]
            near = long[0] if len(long) == 1 else near
        return f'; did you mean "{near}"?' if near else ""

    def add_config_options(self) -> None:
        self.add_argument("--config", metavar="FILE", default=self.unless_given(None),
                          help="lbd.toml to use instead of $LBD_CONFIG,"
                          " ~/.config/lbd/lbd.toml or /etc/lbd/lbd.toml")  # fmt: skip

    def add_json(self) -> None:
        self.add_argument("--json", action="store_true", default=self.unless_given(False),
                          help="print JSON, for scripts")  # fmt: skip

    def unless_given(self, default: object) -> object:
        """Returns the default of an option that a command and its sub-commands take."""
        return argparse.SUPPRESS if self.is_of_subcommand else default

    def subcommands(
        self, abouts: Mapping[str, str], *, required: bool = True
    ) -> "Iterator[tuple[str, Parser]]":
        """Yields the name and the parser of each sub-command. --config and --json may also come
        before its name."""
        self.add_config_options()
        self.add_json()
        commands = self.add_subparsers(metavar="COMMAND", required=required)
        for word, about in abouts.items():
            made: Parser = commands.add_parser(word, description=about, help=about)
            made.is_of_subcommand = True  # what it leaves out does not undo what came before
            made.add_config_options()
            made.add_json()
            yield word, made

    def add_version(self) -> None:
        self.add_argument("--version", action="version", version=f"{self.prog} {lbd.__version__}")


NOTHING_ELSEWHERE: Mapping[str, str] = {}


def command_line(
    program: str,
    about: str,
    commands: Mapping[str, str],
    examples: Sequence[str],
    argv: Sequence[str],
    elsewhere: Mapping[str, str] = NOTHING_ELSEWHERE,
    *,
    takes_config: bool = True,
    takes_json: bool = False,
) -> tuple[str, list[str], str | None]:
    """Parses the command line of a program with `commands`. Returns the command, its own words, and
    the file of --config. `elsewhere` maps other programs' names for them to these, or to other
    commands of ours. `takes_config` and `takes_json` allow these options before the command."""
    wide = max(map(len, commands))
    listing = "\n".join(f"  {name:<{wide}}  {does}" for name, does in commands.items())
    parser = Parser(program, f"{about}\n\ncommands:\n{listing}", examples)
    if takes_config:
        parser.add_config_options()
    else:
        parser.set_defaults(config=None)
    parser.add_version()
    if takes_json:
        parser.add_json()
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="see above")
    parser.add_argument("rest", metavar="…", nargs=argparse.REMAINDER, help="its own --help")
    options = parser.parse_args(argv)
    command: str | None = options.command
    if command is None:
        parser.error(f"which command? {', '.join(commands)}")
    if command == "help" and command not in commands:
        asked = next((word for word in options.rest if word in commands), None)
        if asked is not None:
            return asked, ["--help"], options.config
        parser.print_help()
        parser.exit()
    if command not in commands:
        meant = elsewhere.get(command.lower())
        whole = f"{program} {meant}" if meant in commands else meant
        near = f'use "{whole}"' if meant else hint(command, commands)
        parser.error(f"no command {command!r}; {near}")
    json = ["--json"] if takes_json and options.json else []
    return command, [*json, *options.rest], options.config


def add_utc(parser: Parser) -> None:
    parser.add_argument(
        "--utc", action="store_true", help="show times of day in UTC instead of local time"
    )
