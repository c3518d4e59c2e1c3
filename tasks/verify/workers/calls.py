"""Reads function calls out of an answer: JSON, or Python call syntax; runs in a helper process, see worker.py.

Nothing is evaluated: arguments must be literals. The parser of the standard library can exhaust the stack on hostile
text, which then ends the helper and not us.
"""

import ast
import json
import re
from typing import Any

_LONGEST = 20_000
_FENCE = re.compile(r"^```\w*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def parse(text: str) -> list[dict[str, Any]] | None:
    """[{"name", "arguments"}] in order, or None when the text holds no call.

    Known forms: <tool_call>{JSON}</tool_call>, a JSON object or array of {"name", "arguments" or "parameters"}, and
    Python calls `f(a=1)`, alone or in a list, fenced or not.
    """
    if len(text) > _LONGEST:
        return None
    tagged = _TAGGED.findall(text)
    if tagged:
        found = [_from_json(each) for each in tagged]
        return [call for calls in found if calls for call in calls] if all(found) else None
    fenced = _FENCE.findall(text)
    for candidate in [*fenced[::-1], text]:
        calls = _from_json(candidate) or _from_python(candidate)
        if calls:
            return calls
    return None


def _from_json(text: str) -> list[dict[str, Any]] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    calls = []
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, dict):
            return None
        inner = each.get("function", each)
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            return None
        arguments = inner.get("arguments", inner.get("parameters", {}))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return None
        if not isinstance(arguments, dict):
            return None
        calls.append({"name": inner["name"], "arguments": arguments})
    return calls or None


def _from_python(text: str) -> list[dict[str, Any]] | None:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
    calls = []
    for node in nodes:
        if not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords):
            return None
        try:
            given = {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords}
            positional = [_literal(each) for each in node.args]
        except ValueError:
            return None
        if len(given) != len(node.keywords):
            return None
        call: dict[str, Any] = {"name": ast.unparse(node.func), "arguments": given}
        if positional:
            call["positional"] = positional
        calls.append(call)
    return calls or None


def _literal(node: ast.expr) -> Any:
    value = ast.literal_eval(node)
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError("not JSON data") from error
