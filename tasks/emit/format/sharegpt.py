"""A trajectory as ShareGPT: `{"conversations": [{"from", "value"}], "tools", id, outcome…}`.

Two styles: Hermes (`<tool_call>` text in a gpt turn, `<tool_response>` in a tool turn), and turns of their own
(`function_call`, `observation`), which cannot hold text beside a call. A trajectory keeps its source's style.
"""

from typing import Any, Literal

from schemas.errors import RecordError
from schemas.trajectory import Step, Trajectory
from schemas.vocabulary import ArgumentState, Source
from tasks.emit.format.pieces import argument_object, argument_text, extra_of, plain_text, tools_of, top_fields
from tasks.normalize.decoder import hermes
from tasks.normalize.decoder.found import compact

Style = Literal["hermes", "function_call"]
_FROM = {Source.SYSTEM: "system", Source.USER: "human", Source.AGENT: "gpt", Source.ENVIRONMENT: "environment"}


def write(trajectory: Trajectory, style: Style | None = None) -> dict[str, Any]:
    """The record. style None: the source's, else hermes.

    Raises RecordError where a call cannot be written: arguments that never parsed (function_call style), media.
    """
    extra = extra_of(trajectory)
    chosen = style or ("function_call" if extra.get("style") == "function_call" else "hermes")
    extra.pop("style", None)
    steps = list(trajectory.steps)
    record: dict[str, Any] = {}
    if extra.pop("system", None) == "field" and steps and steps[0].source is Source.SYSTEM:
        record["system"] = plain_text(steps[0].content)
        steps = steps[1:]
    turns: list[dict[str, Any]] = []
    for step in steps:
        turns.extend(_turns(step, chosen))
    record["conversations"] = turns
    tools = tools_of(trajectory)
    if tools:
        record["tools"] = compact(tools)
    record.update(top_fields(trajectory, extra, {"conversations", "tools", "system"}))
    return record


def _turns(step: Step, style: Style) -> list[dict[str, Any]]:
    if step.source is Source.ENVIRONMENT and step.results and not step.content:
        return _results(step, style)
    turn: dict[str, Any] = {"from": _FROM[step.source]}
    text = plain_text(step.content)
    if step.reasoning is not None:
        text = f"<think>\n{step.reasoning}\n</think>\n\n{text}"
    if style == "hermes" and step.source is Source.AGENT and hermes.OPEN in text:
        raise RecordError("markup_in_text", "an agent's text holds the mark of a call")
    if not step.tool_calls:
        turn["value"] = text
    elif style == "function_call":
        if text:
            raise RecordError(
                "text_beside_call", f"the function_call style cannot say text beside {step.tool_calls[0].name}"
            )
        calls = [_object(call.name, argument_object(call), call.state) for call in step.tool_calls]
        turn = {"from": "function_call", "value": compact(calls[0] if len(calls) == 1 else calls)}
    else:
        blocks = [_hermes(call.name, argument_object(call), argument_text(call)) for call in step.tool_calls]
        turn["value"] = "\n".join([text, *blocks] if text else blocks)
    if step.weight is not None:
        turn["weight"] = step.weight
    turn.update({key: value for key, value in extra_of(step).items() if key not in turn and key != "role"})
    return [turn, *_results(step, style)]


def _object(name: str, arguments: dict[str, Any] | None, state: ArgumentState) -> dict[str, Any]:
    if arguments is None:
        raise RecordError(f"arguments_{state.value}", f"a call of {name}")
    return {"name": name, "arguments": arguments}


def _hermes(name: str, arguments: dict[str, Any] | None, text: str) -> str:
    if arguments is not None:
        return hermes.encode(name, arguments)
    if f'"{name}"' in text and '"name"' in text:  # the body of a block that was read so
        return f"{hermes.OPEN}{text}{hermes.CLOSE}"
    return f"{hermes.OPEN}\n{compact({'name': name, 'arguments': text})}\n{hermes.CLOSE}"


def _results(step: Step, style: Style) -> list[dict[str, Any]]:
    texts = [plain_text(result.content) for result in step.results]
    if style == "function_call":
        return [{"from": "observation", "value": text} for text in texts]
    if any(hermes.RESPONSE_OPEN in text or hermes.RESPONSE_CLOSE in text for text in texts):
        raise RecordError("markup_in_text", "a result holds the marks that would enclose it")
    return [{"from": "tool", "value": f"{hermes.RESPONSE_OPEN}\n{text}\n{hermes.RESPONSE_CLOSE}"} for text in texts]
