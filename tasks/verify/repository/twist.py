"""Changes what a test demands at its last check into something false; where it can be, only a constant is changed."""

import ast
import builtins
import random
import string
from typing import NamedTuple

_INVERSE: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_PAIRS = (
    ("assertEqual", "assertNotEqual"), ("assertTrue", "assertFalse"), ("assertIn", "assertNotIn"),
    ("assertIs", "assertIsNot"), ("assertIsNone", "assertIsNotNone"), ("assertIsInstance", "assertNotIsInstance"),
    ("assertAlmostEqual", "assertNotAlmostEqual"), ("assertGreater", "assertLessEqual"),
    ("assertLess", "assertGreaterEqual"), ("assertRegex", "assertNotRegex"),
)  # fmt: skip
_OPPOSITE = dict(_PAIRS) | {right: left for left, right in _PAIRS}
_EQUAL = frozenset(
    f"assert{kind}Equal" for kind in ("", "List", "Dict", "Tuple", "Set", "Sequence", "MultiLine", "Count")
)
_ERRORS = ("ZeroDivisionError", "EOFError", "ImportError", "OSError", "RuntimeError", "AttributeError", "KeyError")


class Edit(NamedTuple):
    """New text from `start` to `end`: line (from 1) and byte of the line."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def twisted(test: ast.FunctionDef | ast.AsyncFunctionDef, chance: random.Random) -> Edit | None:
    """The edit that makes the last check which surely runs false; a new last line where there is none."""
    found = _last(test.body, chance)
    if found is not None:
        return found
    last = test.body[-1]
    if last.lineno == test.lineno or last.end_lineno is None or last.end_col_offset is None:
        return None
    place = (last.end_lineno, last.end_col_offset)
    low = chance.randrange(2, 90)
    return Edit(place, place, f"\n{' ' * last.col_offset}assert {low} == {low + chance.randrange(1, 9)}")


def _last(body: list[ast.stmt], chance: random.Random) -> Edit | None:
    """Branches and loops may not run at all, so only statements that always do are looked at."""
    for place, statement in reversed(list(enumerate(body))):
        found = None
        if isinstance(statement, ast.Assert):
            found = _of_test(statement.test, body[:place], chance)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found = _of_call(statement.value, chance)
        elif isinstance(statement, ast.With):
            found = _of_with(statement, chance)
        if found is not None:
            return found
    return None


def _of_test(test: ast.expr, before: list[ast.stmt], chance: random.Random) -> Edit | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _replaced(test, f"({ast.unparse(test.operand)})")
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return _replaced(test, f"(not ({ast.unparse(test)}))")
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        for side in (right, left):
            found = _constant(_given(side, before), chance)
            if found is not None:
                return found
    if isinstance(test.ops[0], ast.Is) and isinstance(right, ast.Constant) and isinstance(right.value, bool):
        return _replaced(right, repr(not right.value))
    return _replaced(test, f"({ast.unparse(left)} {_INVERSE[type(test.ops[0])]} {ast.unparse(right)})")


def _given(side: ast.expr, before: list[ast.stmt]) -> ast.expr:
    """What a name stands for that the test gave a value once and uses nowhere else."""
    if not isinstance(side, ast.Name):
        return side
    uses = [node for each in before for node in ast.walk(each) if isinstance(node, ast.Name) and node.id == side.id]
    for each in before:
        if isinstance(each, ast.Assign) and len(uses) == 1 and each.targets == uses:
            return each.value
    return side


def _of_call(call: ast.Call, chance: random.Random) -> Edit | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    if name in _EQUAL:
        for side in reversed(call.args[:2]):
            found = _constant(side, chance)
            if found is not None:
                return found
    if name not in _OPPOSITE or call.func.end_lineno is None or call.func.end_col_offset is None:
        return None
    end = (call.func.end_lineno, call.func.end_col_offset)
    return Edit((end[0], end[1] - len(name)), end, _OPPOSITE[name])


def _of_with(statement: ast.With, chance: random.Random) -> Edit | None:
    wrapped = statement.items[0].context_expr
    name = ""
    if isinstance(wrapped, ast.Call):
        name = getattr(wrapped.func, "attr", getattr(wrapped.func, "id", ""))
        if name in ("raises", "assertRaises", "assertRaisesRegex") and wrapped.args:
            return _error(wrapped.args[0], chance)
    return None if name == "suppress" else _last(statement.body, chance)


def _error(wanted: ast.expr, chance: random.Random) -> Edit | None:
    """Another exception than the one that must be raised, related to it in no way."""
    known = getattr(builtins, wanted.id, None) if isinstance(wanted, ast.Name) else None
    real = known if isinstance(known, type) else None
    others = [getattr(builtins, name) for name in _ERRORS]
    apart = [each for each in others if real is None or not (issubclass(each, real) or issubclass(real, each))]
    return _replaced(wanted, chance.choice(apart).__name__) if apart else None


def _constant(node: ast.expr, chance: random.Random) -> Edit | None:
    """Another value for one of the constants of a literal."""
    if isinstance(node, ast.Constant):
        new = _other(node.value, chance)
        return None if new is None else _replaced(node, repr(new))
    children: list[ast.expr] = []
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        children = list(node.elts)
    elif isinstance(node, ast.Dict):
        children = list(node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        children = [node.operand]
    for child in chance.sample(children, len(children)):
        found = _constant(child, chance)
        if found is not None:
            return found
    return None


def _other(value: object, chance: random.Random) -> object:
    """A value of the same kind and about the same size; None for what has no other."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        step = chance.randrange(1, max(4, abs(value) // 4))
        return value - step if value >= step and chance.random() < 0.5 else value + step
    if isinstance(value, float):
        return round(value + chance.choice((-1, 1)) * (abs(value) + 0.5) * chance.uniform(0.1, 0.5), 3)
    if isinstance(value, str):
        place = chance.randrange(len(value)) if value else 0
        letters = string.ascii_lowercase.replace(value[place : place + 1].lower() or " ", "")
        return value[:place] + chance.choice(letters) + value[place + 1 :]
    return None


def _replaced(node: ast.expr, text: str) -> Edit | None:
    if node.end_lineno is None or node.end_col_offset is None:
        return None
    return Edit((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), text)
