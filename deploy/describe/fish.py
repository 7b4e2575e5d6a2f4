"""Completion for fish: a line for each command, option and operand, with the words it follows."""

from collections.abc import Iterator

from deploy.describe.bash import kinds_in
from deploy.describe.program import Operand, Option, Program
from deploy.describe.words import asking, words_of


def completion(program: Program) -> str:
    lines = [f"# fish completion of {program.name}, made by deploy/describe; do not edit", ""]
    for kind in sorted(kinds_in(program)):
        if pipeline := asking(kind):
            lines += [f"function __{program.name}_{kind}", f"    {pipeline}", "end", ""]
    others = any(operand.kind == "command" for operand in program.operands)
    if not others:
        lines.append(f"complete -c {program.name} -f")
    for item in program.all():
        lines += described(item, program.name)
    return "\n".join(lines) + "\n"


def described(program: Program, top: str) -> Iterator[str]:
    words = program.name.split()[1:]
    seen = [f"__fish_seen_subcommand_from {word}" for word in words]
    if program.commands:
        known = " ".join(command.word for command in program.commands)
        seen.append(f"not __fish_seen_subcommand_from {known}")
    here = line(top, seen)
    for command in program.commands:
        yield f"{here} -a {command.word} -d {quoted(command.about)}"
    for option in program.options:
        yield f"{here}{flags(option)}{value(option, top)} -d {quoted(option.about)}"
    for operand in program.operands:
        if operand.kind == "command":
            yield f"{here} -a '(__fish_complete_subcommand{skipped(program)})' -d command"
        elif found := value(operand, top):
            yield f"{here}{found.replace(' -x', '')}"


def line(top: str, seen: list[str]) -> str:
    return f"complete -c {top} -n {quoted('; and '.join(seen))}" if seen else f"complete -c {top}"


def flags(option: Option) -> str:
    return "".join(
        f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}" for flag in option.flags
    )


def skipped(program: Program) -> str:
    """The options before the other command that have a value."""
    found = [flag for option in program.options if option.value for flag in option.flags]
    return f" -- {' '.join(found)}" if found else ""


def value(item: Option | Operand, top: str) -> str:
    if isinstance(item, Option) and not item.value:
        return ""
    known = item.choices or words_of(item.kind)
    if known:
        return f" -x -a {quoted(' '.join(known))}"
    if asking(item.kind):
        return f" -x -a '(__{top}_{item.kind})'"
    if item.kind in ("file", "directory"):
        return " -r -F" if isinstance(item, Option) else " -F"
    return " -x" if isinstance(item, Option) else ""


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
