"""Live probes: the Python of a trajectory's steps is run again, to find errors that nobody saw.

`script`: each call is a program of its own; `notebook`: the calls share one session, replayed before each.
"""

from typing import TYPE_CHECKING, Literal

from schemas.trajectory import Base
from tasks.calls import CallOutcome
from tasks.refine.replay import Session, notebook, replay
from tasks.verify.judging.process import Shown

if TYPE_CHECKING:
    from tasks.context import Context

Finding = Literal["same", "differs", "fails_now", "passes_now"]
_FINDINGS: dict[str, Finding] = {
    "": "same",
    "replay_differs": "differs",
    "replay_failed": "fails_now",
    "replay_passed": "passes_now",
}


class Probe(Base, frozen=True):
    """What running a step's code again showed, against its record."""

    finding: Finding
    recorded: str = ""
    replayed: str = ""

    @property
    def silent_error(self) -> bool:
        """Whether the record reports a success that is none, or another result than the code gives."""
        return self.finding in ("differs", "fails_now")

    def told(self) -> str:
        """The probe in words, for a judge."""
        if self.finding == "same":
            return "it gives the recorded result."
        what = {"differs": "it gives another result", "fails_now": "it fails", "passes_now": "it succeeds"}
        return f"{what[self.finding]}. Recorded: {self.recorded[:300]!r}. Now: {self.replayed[:300]!r}."


def probe(steps: list[Shown], session: Session, ctx: "Context") -> dict[int, Probe]:
    """The probes by step index; of several calls in one step the worst finding counts.

    Raises Unavailable when the sandbox cannot run.
    """
    found: dict[int, Probe] = {}
    earlier: list[str] = []
    for step in steps:
        for call in step.calls:
            if call.code is None or call.failed is None:
                continue
            program = call.code if session == "script" else notebook(earlier, call.code)
            outcome = CallOutcome(step.index, None, call.name, program, call.output, call.failed, False, step.index)
            ended = replay([outcome], "script", ctx)
            seen = Probe(finding=_FINDINGS[ended.why], recorded=ended.recorded, replayed=ended.replayed)
            if step.index not in found or (seen.silent_error and not found[step.index].silent_error):
                found[step.index] = seen
            earlier.append(call.code)
    return found
