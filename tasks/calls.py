"""The calls of a trajectory and what came back: which failed, and which were Python that can be run again.

Two forms occur. A tool call stands in an agent step with its result beside it (or, in some sources, in the
environment step that follows). A code call is the last fenced Python block of an agent step's text, answered by
the environment step that follows.
"""

import json
import re
from typing import NamedTuple

from schemas.trajectory import Step, ToolCall, ToolResult, Trajectory, text_of
from schemas.vocabulary import Source

PYTHON_TOOLS = frozenset(
    {
        "python",
        "ipython",
        "run_python",
        "execute_python",
        "python_interpreter",
        "code_interpreter",
        "execute_ipython_cell",
    }
)
_CODE_ARGUMENTS = ("code", "source", "script", "content", "command", "input")

FENCE = re.compile(r"^```(?:python|py|python3)[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL | re.IGNORECASE)

# What an error looks like where a source does not say: the code harness's own words, the interpreter's traces, an
# exit code, an error as the first or last word of the output. Text that mentions one in passing must not match.
_ERROR = re.compile(
    r"\AThe program ended with an error:"
    r"|^Traceback \(most recent call last\)"
    r"|^-{20,}\n\w+(?:Error|Exception|Interrupt)\b"
    r"|^(?:\w+\.)*\w*(?:Error|Exception)(?::.*)?\s*\Z"
    r"|\A\s*(?:Error|ERROR|Exception)\b[: ]"
    r"|\bexit(?:ed with)?(?: code| status)?:? *[1-9]\d*\b"
    r"|^bash: .*(?:command not found|No such file or directory)",
    re.MULTILINE,
)


class CallOutcome(NamedTuple):
    """One call and its result.

    step: the agent step's index. call_id: our id of the tool call, None for a fenced block. code: the Python that
    it ran, None when it is not executable Python. failed: None when nothing came back. inferred: whether `failed`
    was read from the text because the source does not say. result_step: the step that holds the result.
    """

    step: int
    call_id: str | None
    name: str
    code: str | None
    output: str
    failed: bool | None
    inferred: bool
    result_step: int


def looks_failed(output: str) -> bool:
    """Whether the text of a result reports an error, for sources that do not say."""
    if _ERROR.search(output):
        return True
    if output.lstrip().startswith("{"):
        try:
            value = json.loads(output)
        except ValueError:
            return False
        return isinstance(value, dict) and (
            bool(value.get("error")) or value.get("status") == "error" or value.get("success") is False
        )
    return False


def code_of(call: ToolCall) -> str | None:
    """The Python source that a call runs, or None when its arguments are no JSON object with a code string."""
    if call.arguments_json is None:
        return None
    arguments = json.loads(call.arguments_json)
    for name in _CODE_ARGUMENTS:
        if isinstance(arguments.get(name), str):
            return str(arguments[name])
    return None


def fenced_code(step: Step) -> str | None:
    """The last fenced Python block in the step's text, which is the one that a code harness runs; None without any."""
    blocks = FENCE.findall(text_of(step.content))
    return blocks[-1] if blocks else None


def call_outcomes(trajectory: Trajectory, python_tools: frozenset[str] = PYTHON_TOOLS) -> list[CallOutcome]:
    """Every call of the trajectory in order, with its result where one came back."""
    found: list[CallOutcome] = []
    for index, step in enumerate(trajectory.steps):
        if step.source is not Source.AGENT:
            continue
        after = trajectory.steps[index + 1] if index + 1 < len(trajectory.steps) else None
        reply = after if after is not None and after.source is Source.ENVIRONMENT else None
        for call in step.tool_calls:
            code = code_of(call) if call.name in python_tools else None
            result, where = _result(step, reply, call, index)
            found.append(_outcome(index, call.id, call.name, code, result, where))
        code = fenced_code(step) if not step.tool_calls else None
        if code is not None and reply is not None:
            result = reply.results[0] if reply.results else ToolResult(content=reply.content)
            found.append(_outcome(index, None, "python", code, result, index + 1))
    return found


def _result(step: Step, reply: Step | None, call: ToolCall, index: int) -> tuple[ToolResult | None, int]:
    """The result of a call and the step that holds it: beside the call, or in the environment step that follows."""
    for result in step.results:
        if result.call_id == call.id:
            return result, index
    if reply is None:
        return None, index
    for result in reply.results:
        if result.call_id == call.id:
            return result, index + 1
    if len(step.tool_calls) == 1 and not step.results:
        if not reply.results:
            return ToolResult(content=reply.content), index + 1
        if len(reply.results) == 1 and reply.results[0].call_id is None:
            return reply.results[0], index + 1
    return None, index


def _outcome(
    step: int, call_id: str | None, name: str, code: str | None, result: ToolResult | None, where: int
) -> CallOutcome:
    if result is None:
        return CallOutcome(step, call_id, name, code, "", None, False, where)
    output = text_of(result.content)
    inferred = result.is_error is None
    failed = looks_failed(output) if result.is_error is None else result.is_error
    return CallOutcome(step, call_id, name, code, output, failed, inferred, where)
