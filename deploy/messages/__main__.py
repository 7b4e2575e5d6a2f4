"""Every sentence a program can say to a person, in a row, to be read by somebody who knows English.

    .venv/bin/python deploy/messages            # all of them
    .venv/bin/python deploy/messages lbd/client # those of a folder

A sentence is a string with a blank in it that is raised, returned to a caller as a reason, logged
or printed; docstrings, assertions and patterns are left out. What is filled in is shown as {name}.
"""

import ast
import pathlib
import re
import signal
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]
CODE = re.compile(r"^\W*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|FROM|WHERE|AND)\b")
C_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def main(arguments: list[str]) -> None:
    folders = [ROOT / name for name in arguments or ["lbd"]]
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            if not path.name.endswith("_pb2.py") and "_pb2_" not in path.name:
                show(path, python_texts(ast.parse(path.read_text())))
        for path in sorted(folder.rglob("*.c")):
            show(path, c_texts(path.read_text()))


def show(path: pathlib.Path, found: Iterator[tuple[int, str]]) -> None:
    lines = [f"  {number:4} {text}" for number, text in found if is_sentence(text)]
    if lines:
        print(path.relative_to(ROOT), *lines, sep="\n")


def is_sentence(text: str) -> bool:
    return len(re.findall(r"[a-z]{2,}", text)) >= 2 and " " in text and not CODE.search(text)


def python_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    left_out = {id(node) for whole in ast.walk(tree) for node in not_said(whole)}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(piece, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        else:
            pending += reversed(list(ast.iter_child_nodes(node)))


def not_said(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in `node` for the reader of the source, not of the screen."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.Assert):
        yield node
    for name in ("annotation", "returns"):
        if isinstance(written := getattr(node, name, None), ast.AST):
            yield written
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("re.", "struct.")):
        yield from node.args


def piece(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else f"{{{ast.unparse(node)[1:-1]}}}"


def c_texts(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.splitlines(), 1):
        if not line.startswith("#include"):
            yield from ((number, text) for text in C_TEXT.findall(line))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| less` may end first
    main(sys.argv[1:])
