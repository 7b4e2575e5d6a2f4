"""Every small change that could be made to a source file, one at a time.

Only code that runs in a function, or that sets a module's constants, is changed. Defaults,
decorators and annotations stay, and so do messages (any text with a space in it, or one put
together).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutation:
    where: str  # the qualified name of a function, or of a constant of the module
    parent: ast.AST
    field: str
    index: int | None  # in a field that is a list
    was: ast.AST
    became: ast.AST

    @property
    def line(self) -> int:
        return int(getattr(self.was, "lineno", 0))

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    def __str__(self) -> str:
        became = "(dropped)" if isinstance(self.became, ast.Pass) else ast.unparse(self.became)
        return " ".join(f"{self.where}: {ast.unparse(self.was)} → {became}".split())


def variants(node: ast.AST, parent: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may replace this node."""
    match node:
        case ast.Compare():
            for n, operator in enumerate(node.ops):
                for other in COMPARISONS[type(operator)]:
                    ops = [*node.ops[:n], other(), *node.ops[n + 1 :]]
                    yield ast.Compare(node.left, ops, node.comparators)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
        case ast.BoolOp():
            yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
            for n in range(len(node.values)):
                left = [*node.values[:n], *node.values[n + 1 :]]
                yield ast.BoolOp(node.op, left) if len(left) > 1 else left[0]
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Constant(value=str() as text) if text and " " not in text:
            yield ast.Constant(text + "x")
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield ast.Call(ast.Name(FUNCTIONS[name], ast.Load()), node.args, node.keywords)
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and not value.value):
                yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.YieldFrom() | ast.Yield()):
            yield ast.Pass()
        case ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[target]) if not isinstance(target, ast.Name):
            if not (isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name)):
                yield ast.Pass()
    condition = isinstance(parent, ast.If | ast.While | ast.IfExp) and parent.test is node
    plain = isinstance(node, ast.Compare) and len(node.ops) == 1
    if condition and not plain and not isinstance(node, ast.UnaryOp):
        yield ast.UnaryOp(ast.Not(), node)


def below(parent: ast.AST, where: str, fields: tuple[str, ...]) -> Iterator[Mutation]:
    for field in fields:
        held = getattr(parent, field)
        for index, node in enumerate(held) if isinstance(held, list) else [(None, held)]:
            if not isinstance(node, ast.AST):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            if isinstance(node, ast.keyword) and node.arg == "strict":
                continue  # an assertion that two lists have one length
            for became in variants(node, parent):
                became = ast.fix_missing_locations(ast.copy_location(became, node))
                yield Mutation(where, parent, field, index, node, became)
            if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert):
                continue  # of a message; a variant above drops the whole raise
            if isinstance(node, FUNCTION):
                inner: tuple[str, ...] = ("body",)
            else:
                inner = tuple(f for f in node._fields if f not in ("annotation", "ctx", "pattern"))
            yield from below(node, where, inner)


def mutations(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[Mutation]:
    for child in node.body:
        match child:
            case ast.ClassDef():
                yield from mutations(child, f"{prefix}{child.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from below(child, prefix + child.name, ("body",))
            case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(node, ast.Module):
                if isinstance(child.value, ast.BinOp | ast.Subscript) and not name.isupper():
                    continue  # a type: a union, or one with parameters
                yield from below(child, name, ("value",))
