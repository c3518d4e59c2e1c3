"""The text of a trajectory that similarity looks at.

Boilerplate does not count: system prompts and tool schemas are the same for thousands of trajectories, copied
context belongs to another trajectory, and what the environment answers follows from the actions. What counts is
what was asked and what the agent did: its words, and its tool calls with their arguments.
"""

import re
from typing import Literal

from schemas.trajectory import Step, Trajectory, text_of
from schemas.vocabulary import Source

View = Literal["whole", "actions", "prompt", "answer", "patch"]

_PATCH = re.compile(r"^(?:diff --git .*|--- (?:a/|/dev/null).*)\n(?:.*\n?)*", re.MULTILINE)
# Of a patch, the files and the changed lines; hashes and line numbers differ between equal changes.
_PATCH_LINE = re.compile(r"^(?:(?:\+\+\+|---) .*|[+-].*)$", re.MULTILINE)


def view_text(trajectory: Trajectory, view: View) -> str:
    """One view of a trajectory.

    whole: prompt and actions; actions: all the agent did; prompt: what users asked; answer: the last words of the
    agent; patch: the files and changed lines of the last unified diff that it wrote or a tool showed, and all the
    agent did where there is no diff.
    """
    if view == "patch":
        return patch_text(trajectory) or actions_text(trajectory)
    if view == "prompt":
        return prompt_text(trajectory)
    if view == "actions":
        return actions_text(trajectory)
    if view == "answer":
        return answer_text(trajectory)
    return "\n".join(filter(None, (prompt_text(trajectory), actions_text(trajectory))))


def prompt_text(trajectory: Trajectory) -> str:
    """All that users said."""
    return "\n".join(text_of(step.content) for step in own_steps(trajectory) if step.source is Source.USER)


def actions_text(trajectory: Trajectory) -> str:
    """All that the agent thought, said and called."""
    return "\n".join(action_text(step) for step in own_steps(trajectory) if step.source is Source.AGENT)


def answer_text(trajectory: Trajectory) -> str:
    """The text of the last agent step that has any; "" without one."""
    for step in reversed(own_steps(trajectory)):
        if step.source is Source.AGENT and text_of(step.content).strip():
            return text_of(step.content)
    return ""


def patch_text(trajectory: Trajectory) -> str:
    """The files and changed lines of the last unified diff; "" without one."""
    for step in reversed(own_steps(trajectory)):
        texts = [text_of(step.content), *(call.arguments for call in step.tool_calls)]
        for text in reversed([*texts, *(text_of(result.content) for result in step.results)]):
            found = _PATCH.search(text)
            if found:
                return "\n".join(_PATCH_LINE.findall(found.group()))
    return ""


def action_text(step: Step) -> str:
    """One agent step: reasoning, text, and each call as its name and arguments."""
    calls = (f"{call.name} {call.arguments_json or call.arguments}" for call in step.tool_calls)
    return "\n".join(part for part in (step.reasoning or "", text_of(step.content), *calls) if part)


def own_steps(trajectory: Trajectory) -> tuple[Step, ...]:
    """The steps without context copied from another trajectory."""
    return tuple(step for step in trajectory.steps if not step.copied_context)
