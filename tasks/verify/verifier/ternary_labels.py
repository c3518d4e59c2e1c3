"""Labels every step of an agent: correct, correctable (a later step can still put it right) or irrecoverable.

A model labels step by step and knows what came before. The Python of each step is run again in the sandbox (a live
probe): a record of a success that fails now, or of another result, is a silent error, and its step is never `correct`
whatever the model says. After DataPRM's ternary process rewards. The labels also stand in `step_labels`. Judges every
trajectory; it needs no specification.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from schemas.ids import content_id
from schemas.rows import StepLabel
from schemas.task import Task
from schemas.vocabulary import Source, VerdictKind
from tasks.operator import Item, Result
from tasks.refine.replay import Session
from tasks.verify.base import Judgement, unparsable
from tasks.verify.judging.judge import Question, fields, judged, mark_for, shown, unread
from tasks.verify.judging.probes import Probe, probe
from tasks.verify.judging.process import ProcessJudge, Shown, read

if TYPE_CHECKING:
    from tasks.context import Context

REWARDS = {"correct": 1.0, "correctable": 0.5, "irrecoverable": 0.0}
_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "label": {"type": "string", "enum": list(REWARDS)}},
    "required": ["reason", "label"],
    "additionalProperties": False,
}


class TernaryLabels(ProcessJudge, frozen=True, kw_only=True):
    """The mean of the steps' rewards (1, 0.5, 0); it passes when no step is irrecoverable and the last is correct.

    session: how the code of steps is run again: script, notebook, or off for no probes. before: so many earlier steps
    are shown with a step.
    """

    session: Session | Literal["off"] = "script"
    before: int = 6
    version: ClassVar[int] = 2
    prompts: ClassVar[tuple[str, ...]] = ("ternary_labels",)

    def judge(self, task: Task, completion: str, ctx: "Context") -> Judgement:
        """One call per agent step; probes first, since the judge is told what they showed."""
        steps = read(completion)
        if steps is None:
            return unparsable("no_steps")
        own = [place for place, step in enumerate(steps) if step.who == Source.AGENT.value]
        if not own:
            return unparsable("no_steps")
        probes = probe(steps, self.session, ctx) if self.session != "off" else {}
        questions = [self._question(task, steps, place, probes.get(steps[place].index)) for place in own]
        replies, accounts = self.ask(task, questions, ctx, _FORM)
        said = [fields(reply.text) or {} for reply in replies]
        evidence: dict[str, Any] = {"model": replies[0].model, "probes": len(probes)}
        bad = [reply for reply, each in zip(replies, said, strict=True) if each.get("label") not in REWARDS]
        if bad:
            return unread(bad, accounts, evidence)
        labels = [
            _label(steps[place], each, probes.get(steps[place].index)) for place, each in zip(own, said, strict=True)
        ]
        evidence |= {
            "silent_errors": [index for index, each in probes.items() if each.silent_error],
            "labels": labels,
        }
        reward = sum(REWARDS[each["label"]] for each in labels) / len(labels)
        lost = any(each["label"] == "irrecoverable" for each in labels)
        good = not lost and labels[-1]["label"] == "correct"
        reason = "pass" if good else "irrecoverable" if lost else "ends_wrong"
        return judged(VerdictKind.PASS if good else VerdictKind.FAIL, reward, reason, evidence, accounts)

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """The verdicts, and each step's label as a row of its own."""
        result = ProcessJudge.run(self, items, ctx)
        fingerprint = self.fingerprint(ctx)
        rows = []
        for verdict in result.rows["verdicts"]:
            for each in json.loads(verdict.evidence_json).get("labels", []):
                rows.append(
                    StepLabel(
                        id=content_id("ternary", fingerprint, verdict.trajectory_id, each["step"]),
                        trajectory_id=verdict.trajectory_id,
                        step=each["step"],
                        label=each["label"],
                        reward=REWARDS[each["label"]],
                        reason=each["why"],
                        parents=(verdict.id,),
                    )
                )
        return msgspec.structs.replace(result, rows={**result.rows, "step_labels": rows} if rows else result.rows)

    def _question(self, task: Task, steps: list[Shown], place: int, seen: Probe | None) -> Question:
        before = [self._told(step) for step in steps[max(0, place - self.before) : place]]
        known = {"task": shown(task), "before": before, "step": self._told(steps[place])}
        told = seen.told() if seen else ""
        return Question("ternary_labels", {**known, "probe": told, "mark": mark_for(str(known))})

    def _told(self, step: Shown) -> str:
        calls = [
            f"call {call.name}({self.cut(call.arguments)})\nresult: {self.cut(call.output)}" for call in step.calls
        ]
        return "\n".join([f"{step.who}: {self.cut(step.text)}", *calls])


def _label(step: Shown, said: dict[str, Any], seen: Probe | None) -> dict[str, Any]:
    """The model's label, lowered where the probe found a silent error."""
    label, why = str(said["label"]), str(said.get("reason") or "")[:200]
    if seen is not None and seen.silent_error and label == "correct":
        return {"step": step.index, "label": "correctable", "why": f"silent_error: {seen.finding}"}
    return {"step": step.index, "label": label, "why": why}
