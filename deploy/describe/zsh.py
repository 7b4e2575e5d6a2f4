"""Completion for zsh: an `_arguments` for each program and command."""

from collections.abc import Iterator

from deploy.describe.bash import kinds_in
from deploy.describe.program import Operand, Option, Program
from deploy.describe.words import asking, words_of

ACTIONS = {"file": "_files", "directory": "_files -/", "": " "}


def completion(program: Program) -> str:
    parts = [f"#compdef {program.name}\n# made by deploy/describe; do not edit\n"]
    for kind in sorted(kinds_in(program)):
        if pipeline := asking(kind):
            body = f'compadd -- ${{(f)"$({pipeline})"}}'
            parts.append(f"__{program.name}_{kind}() {{\n    {body}\n}}\n")
    parts += [function(item, program.name) for item in reversed([*program.all()])]
    parts.append(f'{symbol(program)} "$@"\n')
    return "\n".join(parts)


def symbol(program: Program) -> str:
    return "_" + program.name.replace(" ", "_").replace("-", "_")


def function(program: Program, top: str) -> str:
    lines = [*(option_spec(option, top) for option in program.options)]
    if program.commands:
        lines += ["'1:command:->command'", "'*:: :->rest'"]
    else:
        lines += operand_specs(program.operands, top)
    arguments = " \\\n        ".join(lines)
    stop = " -A '-*'" if any(o.kind == "command" for o in program.operands) else ""
    head = f"{symbol(program)}() {{\n    local curcontext=$curcontext state line ret=1\n"
    text = f"{head}    _arguments -s -C -S{stop} \\\n        {arguments} && ret=0\n"
    if program.commands:
        known = " ".join(quoted(f"{command.word}:{command.about}") for command in program.commands)
        cases = "\n".join(
            f"        {command.word}) {symbol(command)} && ret=0 ;;" for command in program.commands
        )
        text += (
            f"    case $state in\n    command)\n        local -a known=({known})\n"
            f"        _describe command known && ret=0\n        ;;\n"
            f"    rest)\n        case $line[1] in\n{cases}\n        esac\n        ;;\n    esac\n"
        )
    return f"{text}    return ret\n}}\n"


def option_spec(option: Option, top: str) -> str:
    about = described(option.about)
    value = f":{described(option.value)}:{action(option, top)}" if option.value else ""
    star = "*" if "repeat" in option.about else ""
    if len(option.flags) == 1:
        equals = "=" if option.value else ""
        return quoted(f"{star}{option.flags[0]}{equals}[{about}]{value}")
    others = "" if star else quoted(f"({' '.join(option.flags)})")
    short, *long = option.flags
    flags = ",".join((f"{short}+" if option.value else short, *equal(long, option)))
    return f"{others or quoted(star)}{{{flags}}}{quoted(f'[{about}]{value}')}"


def equal(long: list[str], option: Option) -> Iterator[str]:
    yield from (f"{flag}=" if option.value else flag for flag in long)


def operand_specs(operands: tuple[Operand, ...], top: str) -> list[str]:
    specs = []
    for number, operand in enumerate(operands, 1):
        name = described(operand.value) or "argument"
        if operand.kind == "command":
            specs += [f"'({'-' if number == 1 else ''}){number}:command:_command_names -e'"]
            specs += ["'*::arguments:_normal'"]
            break
        if operand.many:
            specs.append(quoted(f"*:{name}:{action(operand, top)}"))
            break
        colon = ":" if operand.needed else "::"
        specs.append(quoted(f"{number}{colon}{name}:{action(operand, top)}"))
    return specs


def action(item: Option | Operand, top: str) -> str:
    if item.choices:
        return f"({' '.join(item.choices)})"
    if known := words_of(item.kind):
        spaced = " ".join(known)
        return f"compadd -S '' - {spaced}" if item.kind == "setting" else f"({spaced})"
    if asking(item.kind):
        return f"__{top}_{item.kind}"
    return ACTIONS.get(item.kind, " ")


def described(text: str) -> str:
    return text.replace("\\", "").replace("[", "(").replace("]", ")").replace(":", "\\:")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
