"""The page of a program: its options and, of lbd and lbctl, every command with its own."""

from collections.abc import Iterator

from deploy.describe.program import Operand, Option, Program
from deploy.reference.markdown import prose, table

EVERYWHERE = ("--help", "--version")


def program_page(program: Program) -> str:
    parts = [f"# {program.name}", prose(program.about)]
    parts += [prose(text) for text in program.details]
    parts.append(f"The same as text: `man {program.name}` and `{program.name} --help`.")
    if not program.commands:
        parts.append(f"```text\n{usage(program)}\n```")
    parts += option_table([o for o in program.options if o.flags[-1] not in EVERYWHERE])
    for note in program.notes:
        title, _, text = note.partition(": ")
        parts += [f"## {title}", prose(text)]
    if program.commands:
        leaves = [p for command in program.commands for p in command.all() if not p.commands]
        links = [
            (f"[`{p.name.partition(' ')[2]}`](#{anchor(p.name)})", prose(p.about)) for p in leaves
        ]
        parts.append(table(("command", "what it does"), links))
        parts += [text for leaf in leaves for text in command_section(leaf)]
    elif program.examples:
        parts += ["## Examples", code(program.examples)]
    return "\n\n".join(part.rstrip() for part in parts)


def command_section(command: Program) -> Iterator[str]:
    yield f"## {command.name}"
    yield prose(command.about)
    for text in command.details:
        yield prose(text)
    yield f"```text\n{usage(command)}\n```"
    yield from option_table(
        [o for o in command.options if o.flags[-1] not in (*EVERYWHERE, "--config")]
    )
    known = [(f"`{o.value.upper()}`", prose(o.about)) for o in command.operands if o.about]
    if known:
        yield table(("argument", "meaning"), known)
    if command.examples:
        yield code(command.examples)


def code(lines: tuple[str, ...]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```"


def option_table(options: list[Option]) -> Iterator[str]:
    if options:
        yield table(
            ("option", "meaning"),
            [(shown(option), prose(option.about or "see --help")) for option in options],
        )


def shown(option: Option) -> str:
    value = f" {option.value}" if option.value else ""
    return f"`{', '.join(option.flags)}{value}`"


def usage(program: Program) -> str:
    if len(program.operands) == 1 and " " in program.operands[0].value:
        operand = program.operands[0].value
        return (
            f"{program.name} {operand if operand.startswith('[SHELL') else f'[OPTIONS] {operand}'}"
        )
    options = "[OPTIONS] " if program.options else ""
    return f"{program.name} {options}{' '.join(map(shown_operand, program.operands))}".rstrip()


def shown_operand(operand: Operand) -> str:
    text = f"{operand.value.upper().rstrip('…')}{'…' if operand.many else ''}"
    return text if operand.needed else f"[{text}]"


def anchor(name: str) -> str:
    return name.replace(" ", "-").lower()
