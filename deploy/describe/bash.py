"""Completion for bash: tables of what there is, and one walk over the words before the cursor.

The walk needs nothing but bash; where bash-completion is loaded, the words of another command
(`lbrun make …`) are completed by that command's own completion.
"""

import shlex

from deploy.describe.program import Operand, Program
from deploy.describe.words import asking, words_of

WALK = r"""
    local cur=${COMP_WORDS[COMP_CWORD]} at=@NAME@ pending= operand=0 i word kind
    local commands options operands
    COMPREPLY=()
    [[ $cur == = ]] && cur=
    __@NAME@_at "$at"
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == = ]]; then
            [[ $i -lt $((COMP_CWORD - 1)) ]] && ((i++)) || pending=${pending:-$last}
            continue
        fi
        if [[ $pending ]]; then
            last=$pending pending=
            continue
        fi
        case $word in
            --) ;;
            -*)
                last=$(__@NAME@_value "$at" "$word")
                pending=$last
                ;;
            *)
                if [[ " $commands " == *" $word "* ]]; then
                    at+=" $word" operand=0
                    __@NAME@_at "$at"
                elif [[ $(__@NAME@_operand "$operand" $operands) == command ]]; then
                    __@NAME@_other "$i"
                    return
                else
                    ((operand++))
                fi
                ;;
        esac
    done
    if [[ $pending ]]; then
        kind=$pending
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    elif [[ $commands ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
        return
    else
        kind=$(__@NAME@_operand "$operand" $operands)
    fi
    case $kind in
        file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        directory) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        command) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "$(__@NAME@_words "$kind")" -- "$cur") ;;
    esac
    [[ $kind == setting ]] && compopt -o nospace
    return 0
"""
FUNCTIONS = r"""
__@NAME@_operand() { # which, the kinds; the last of "kind..." stands for all that follow
    local which=$1
    shift
    [[ $which -ge $# && ${!#} == *... ]] && which=$(($# - 1))
    shift "$which" 2>/dev/null && echo "${1%...}"
}

__@NAME@_other() { # the words from here on are those of another command
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}
"""


def completion(program: Program) -> str:
    functions = "\n".join(
        (tables(program), values(program), words(program), FUNCTIONS, body(program))
    ).replace("@NAME@", program.name)
    head = f"# bash completion of {program.name}, made by deploy/describe; do not edit\n\n"
    return f"{head}{functions}\ncomplete -F _{program.name} {program.name}\n"


def tables(program: Program) -> str:
    lines = ["__@NAME@_at() {", "    commands= options= operands=", "    case $1 in"]
    for item in program.all():
        commands = " ".join(command.word for command in item.commands)
        options = " ".join(flag for option in item.options for flag in option.flags)
        operands = " ".join(kind_of(operand) for operand in item.operands)
        lines.append(f"        {shlex.quote(item.name)})")
        for name, value in (("commands", commands), ("options", options), ("operands", operands)):
            if value:
                lines.append(f"            {name}={shlex.quote(value)}")
        lines.append("            ;;")
    return "\n".join([*lines, "    esac", "}"])


def kind_of(operand: Operand) -> str:
    kind = operand.kind or (f"one-of:{','.join(operand.choices)}" if operand.choices else "none")
    return f"{kind}..." if operand.many else kind


def values(program: Program) -> str:
    """What an option's value is, "" for an option that has none."""
    lines = ["", "__@NAME@_value() {", '    case "$1 $2" in']
    for item in program.all():
        for option in item.options:
            if not option.value:
                continue
            names = "|".join(f'"{item.name} {flag}"' for flag in option.flags)
            choices = f"one-of:{','.join(option.choices)}" if option.choices else ""
            lines.append(
                f"        {names}) echo {shlex.quote(choices or option.kind or 'none')} ;;"
            )
    return "\n".join([*lines, "    esac", "}"])


def words(program: Program) -> str:
    kinds = sorted(kinds_in(program))
    lines = ["", "__@NAME@_words() {", "    case $1 in"]
    for kind in kinds:
        if known := words_of(kind):
            lines.append(f"        {kind}) echo {shlex.quote(' '.join(known))} ;;")
        elif pipeline := asking(kind):
            lines.append(f"        {kind}) {pipeline} ;;")
    lines += ["        one-of:*) tr , ' ' <<<\"${1#*:}\" ;;", "    esac", "}"]
    return "\n".join(lines)


def kinds_in(program: Program) -> set[str]:
    parts = [part for item in program.all() for part in (*item.options, *item.operands)]
    return {part.kind for part in parts if part.kind}


def body(program: Program) -> str:
    return f"_{program.name}() {{{WALK.rstrip()}\n}}\n"
