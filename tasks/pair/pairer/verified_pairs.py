"""Preference pairs from a task's own samples: one that its verifier passed against one that it failed.

    [[pair]]
    use = "verified_pairs"

Both must share everything up to one assistant turn; that turn, chosen against rejected, is the pair. When either
trajectory goes on with further turns after it, the difference of outcome may lie there: such a pair is dropped as
`multi_turn`, since preference trainers know no mask inside the answers. With `follow = true` it is kept: the
turn then stands for how its trajectory went on, as in step-level preferences.
"""

from collections.abc import Sequence

import msgspec

from schemas.errors import RecordError
from schemas.ids import canonical_json, content_id
from schemas.rows import Pair
from schemas.trajectory import Trajectory
from tasks.emit.messages import json_text, to_chat
from tasks.pair.base import Member, Pairer, Unpaired
from tasks.pair.divergence import first_difference, is_last_turn


class VerifiedPairs(Pairer, frozen=True, kw_only=True):
    """Verified against failed samples of the same task.

    per_task: at most so many pairs of one task; each failed sample is in one pair at most.
    follow: also pair turns after which a trajectory goes on.
    """

    per_task: int = 4
    follow: bool = False

    def pair_group(
        self, task_id: str, members: Sequence[Member], fingerprint: str
    ) -> tuple[list[Pair], dict[str, Unpaired]]:
        """Pairs failed members with passed ones, both in the order of their ids, the passed ones in rotation."""
        good = [member.trajectory for member in members if member.passed]
        bad = [member.trajectory for member in members if not member.passed]
        if not good or not bad:
            why = "single" if len(members) == 1 else "all_pass" if good else "all_fail"
            return [], {member.trajectory.id: Unpaired(why, {"members": len(members)}) for member in members}
        pairs: list[Pair] = []
        unpaired: dict[str, Unpaired] = {}
        for turn, rejected in enumerate(bad):
            if len(pairs) == self.per_task:
                unpaired[rejected.id] = Unpaired("over_limit", {"per_task": self.per_task})
                continue
            reasons: dict[str, str] = {}
            for offset in range(len(good)):
                chosen = good[(turn + offset) % len(good)]
                made = self._pair(task_id, chosen, rejected, fingerprint)
                if isinstance(made, Pair):
                    pairs.append(made)
                    break
                reasons[chosen.id] = made
            else:
                unpaired[rejected.id] = Unpaired(next(iter(reasons.values())), {"against": reasons})
        used = {parent for pair in pairs for parent in pair.parents}
        for chosen in good:
            if chosen.id not in used:
                unpaired[chosen.id] = Unpaired("no_counterpart", {"failed": len(bad), "pairs": len(pairs)})
        return pairs, unpaired

    def _pair(self, task_id: str, chosen: Trajectory, rejected: Trajectory, fingerprint: str) -> Pair | str:
        """The pair, or the reason why these two make none."""
        parting = first_difference(chosen, rejected)
        if parting.what != "turn":
            return {"prompt": "other_prompt", "observation": "other_observation"}.get(parting.what, parting.what)
        if not self.follow and not all(is_last_turn(one, parting.step) for one in (chosen, rejected)):
            return "multi_turn"
        try:
            (prompt, better), tools = _turn(chosen, parting.step)
            (_, worse), _ = _turn(rejected, parting.step)
        except RecordError as error:
            return error.reason
        if better == worse:
            return "identical"
        return Pair(
            id=content_id("pair", fingerprint, chosen.id, rejected.id),
            kind="preference",
            task_id=task_id,
            prompt_json=prompt,
            chosen_json=better,
            rejected_json=worse,
            tools_json=tools,
            evidence_json=canonical_json({"step": parting.step, "chosen": chosen.id, "rejected": rejected.id}),
            parents=(chosen.id, rejected.id),
        )


def _turn(trajectory: Trajectory, step: int) -> tuple[tuple[str, str], str | None]:
    """The messages before an agent turn and the turn itself without its results, as JSON text; the tools offered."""
    turn = msgspec.structs.replace(trajectory.steps[step], results=())
    upto = msgspec.structs.replace(trajectory, steps=(*trajectory.steps[:step], turn))
    chat = to_chat(upto)
    tools = json_text(chat.tools) if chat.tools else None
    return (json_text(chat.messages[:-1]), json_text(chat.messages[-1:])), tools
