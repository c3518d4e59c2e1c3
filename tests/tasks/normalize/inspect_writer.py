"""Writes a log of Inspect AI with Inspect AI itself: python inspect_writer.py FOLDER json|eval. Prints the file.

Run by an interpreter that has `inspect-ai`; the model is its own mock, so nothing is asked of any network.
"""

import sys

from inspect_ai import Task, eval  # type: ignore[import-not-found]
from inspect_ai.dataset import Sample  # type: ignore[import-not-found]
from inspect_ai.model import (  # type: ignore[import-not-found]
    ChatMessageUser,
    ContentImage,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import match  # type: ignore[import-not-found]
from inspect_ai.solver import generate, system_message, use_tools  # type: ignore[import-not-found]
from inspect_ai.tool import tool  # type: ignore[import-not-found]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@tool
def add():  # type: ignore[no-untyped-def]
    async def execute(a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
        """
        return str(a + b)

    return execute


def said(output: ModelOutput) -> ModelOutput:
    output.usage = ModelUsage(input_tokens=20, output_tokens=5, total_tokens=25)
    return output


def main() -> None:
    outputs = [
        said(ModelOutput.for_tool_call("mockllm/model", "add", {"a": 2, "b": 3})),
        said(ModelOutput.from_content("mockllm/model", "5")),
        said(ModelOutput.for_tool_call("mockllm/model", "add", {"a": 4, "b": 5})),
        said(ModelOutput.from_content("mockllm/model", "8")),
    ]
    shown = ChatMessageUser(content=[ContentText(text="4 + 5?"), ContentImage(image=PIXEL)])
    work = Task(
        dataset=[Sample(id="s1", input="2 + 3?", target="5"), Sample(id="s2", input=[shown], target="9")],
        solver=[system_message("Use the tool."), use_tools(add()), generate()],
        scorer=match(),
    )
    [log] = eval(
        work,
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=sys.argv[1],
        log_format=sys.argv[2],
        log_images=True,
        display="none",
        max_samples=1,
    )
    if log.status != "success":
        raise SystemExit(f"the evaluation ended as {log.status}: {log.error}")
    print(log.location)


if __name__ == "__main__":
    main()
