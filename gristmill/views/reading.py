"""Shows a trajectory or a task as a person reads it."""

from rich.markup import escape
from rich.rule import Rule

from gristmill.views.output import harmless, out
from schemas.rows import Verdict
from schemas.task import Task
from schemas.trajectory import Step, Trajectory, text_of
from schemas.vocabulary import PartType

_COLOURS = {"system": "magenta", "user": "cyan", "agent": "green", "environment": "yellow"}


def print_trajectory(trajectory: Trajectory, verdicts: list[Verdict]) -> None:
    """Every step with its calls and results, then what the source and our verifiers say."""
    policy = " · ".join(
        part for part in (trajectory.policy.teacher, trajectory.policy.model, trajectory.policy.strategy) if part
    )
    out.print(f"[bold]{trajectory.id}[/bold]  {escape(policy)}")
    if trajectory.task_id:
        out.print(f"[dim]task {escape(trajectory.task_id)}, sample {trajectory.sample_index}[/dim]")
    for number, step in enumerate(trajectory.steps):
        _print_step(number, step)
    out.print(Rule())
    if trajectory.outcome.success is not None or trajectory.outcome.score is not None:
        out.print(f"source says: success {trajectory.outcome.success}, score {trajectory.outcome.score}")
    for verdict in verdicts:
        out.print(f"{verdict.verifier}: [bold]{verdict.kind}[/bold], reward {verdict.reward}, trust {verdict.trust}")


def _print_step(number: int, step: Step) -> None:
    colour = _COLOURS[step.source.value]
    out.print(Rule(f"[{colour}]{number} {step.source}[/{colour}]", align="left"))
    if step.reasoning:
        out.print(f"[dim]{escape(step.reasoning)}[/dim]")
    text = text_of(step.content)
    if text:
        out.print(escape(text))
    for part in step.content:
        if part.type is not PartType.TEXT:
            out.print(
                f"[dim]({part.type} {escape(part.media_type or '')} {escape(part.uri or part.sha256 or '')})[/dim]"
            )
    for call in step.tool_calls:
        out.print(f"[bold]→ {escape(call.name)}[/bold] {escape(call.arguments)}")
    for result in step.results:
        mark = "✗" if result.is_error else "←"
        out.print(f"[bold]{mark}[/bold] {escape(text_of(result.content))}")


def print_task(task: Task) -> None:
    """The prompt, the verifier's name and where the task comes from; never its hidden tests."""
    out.print(f"[bold]{task.id}[/bold]  {escape(task.kind)}  {escape(task.name or '')}")
    for message in task.prompt:
        out.print(Rule(escape(harmless(message.role)), align="left"))
        out.print(escape(message.content))
    out.print(Rule())
    out.print(f"verified by {task.verifier.use}; from {escape(task.provenance.dataset or 'this recipe')}")
