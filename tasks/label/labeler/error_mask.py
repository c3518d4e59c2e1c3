"""Failed calls are not trained: weight 0 on every call whose result is an error.

    [[label]]
    use = "error_mask"

After KAT-Coder. The failed call stays in the context, so the recovery that follows is still learnt from; only the
loss on the call itself is masked. A step whose every call failed is masked as a whole, its reasoning too: that is
what led there. In a step with parallel calls only the failed ones are.
"""

from typing import TYPE_CHECKING

from schemas.rows import StepLabel
from schemas.trajectory import Trajectory
from tasks.calls import CallOutcome, call_outcomes
from tasks.label.base import Labeler

if TYPE_CHECKING:
    from tasks.context import Context


class ErrorMask(Labeler, frozen=True, kw_only=True):
    """Weight 0 on failed calls.

    infer: also take as failed what only looks like an error, where the source does not say.
    """

    infer: bool = True

    def eligible(self, trajectory: Trajectory) -> bool:
        """Whether some call failed."""
        return any(self._failed(call) for call in call_outcomes(trajectory))

    def _failed(self, call: CallOutcome) -> bool:
        return bool(call.failed) and (self.infer or not call.inferred)

    def label(self, trajectory: Trajectory, ctx: "Context") -> list[StepLabel]:
        """One label per masked step, or per failed call of a step in which others succeeded."""
        labels = []
        calls = call_outcomes(trajectory)
        for step in dict.fromkeys(call.step for call in calls):
            here = [call for call in calls if call.step == step]
            failed = [call for call in here if self._failed(call)]
            if failed and len(failed) == len(here):
                inferred = any(call.inferred for call in failed)
                labels.append(self._mask(ctx, trajectory, step, None, inferred))
            else:
                labels += [self._mask(ctx, trajectory, step, call.call_id, call.inferred) for call in failed]
        return labels

    def _mask(
        self, ctx: "Context", trajectory: Trajectory, step: int, call_id: str | None, inferred: bool
    ) -> StepLabel:
        return self.step_label(
            ctx, trajectory, step, "call_failed", call_id=call_id, weight=0.0, evidence={"inferred": inferred}
        )
