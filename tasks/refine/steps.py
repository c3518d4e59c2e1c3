"""Steps after some were taken out or put in: call ids name the step that holds them."""

from collections.abc import Sequence

import msgspec

from schemas.trajectory import Step


def renumbered(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with call ids that name their new place; results keep their calls."""
    made = []
    names: dict[str, str] = {}
    for index, step in enumerate(steps):
        for position, call in enumerate(step.tool_calls):
            names[call.id] = f"s{index}c{position}"
        made.append(
            msgspec.structs.replace(
                step,
                tool_calls=tuple(msgspec.structs.replace(call, id=names[call.id]) for call in step.tool_calls),
                results=tuple(
                    msgspec.structs.replace(result, call_id=names.get(result.call_id or "")) for result in step.results
                ),
            )
        )
    return tuple(made)
