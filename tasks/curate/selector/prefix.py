"""Drops trajectories that are the beginning of another one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from schemas.ids import digest
from schemas.trajectory import Trajectory, text_of
from schemas.vocabulary import Source
from tasks.curate.base import KEEP, Choice, Chosen, SetSelector, side_rows
from tasks.curate.standing import standings
from tasks.curate.view import action_text, own_steps

if TYPE_CHECKING:
    from tasks.context import Context
    from tasks.curate.features import Signed

_SIZE = 16


class Prefix(SetSelector, frozen=True, kw_only=True):
    """Drops trajectories that are the beginning of another one.

    The reason is `prefix`; the evidence the kept, longer trajectory and both lengths in steps.

    Compared are the words of users and the actions of the agent, step by step; what the environment answered
    follows from them. Equal trajectories are no prefixes of each other (see `exact`).

    verdicts: `respect` keeps a passed prefix of a trajectory that did not pass; `ignore` does not look.
    teachers: `apart` compares trajectories of one teacher only, `together` all.
    """

    verdicts: Literal["respect", "ignore"] = "respect"
    teachers: Literal["apart", "together"] = "apart"

    @property
    def leans_on_verdicts(self) -> bool:
        """Unless verdicts are ignored."""
        return self.verdicts == "respect"

    def choose(self, refs: Sequence[str], ctx: "Context") -> Chosen:
        """From the longest to the shortest; a prefix is measured against kept trajectories only."""
        from tasks.curate.features import raw_signatures

        found = raw_signatures(ctx.lake, refs, "steps/1", _sign)
        known = standings(ctx.lake, refs)
        chains = [_chain(values) for values in found.values]
        order = sorted(range(len(refs)), key=lambda number: (-len(chains[number]), refs[number]))
        choices: list[Choice] = [KEEP] * len(refs)
        longer: dict[tuple[bytes, str], list[int]] = {}
        for number in order:
            chain = chains[number]
            mine = known[refs[number]]
            teacher = mine.teacher if self.teachers == "apart" else ""
            others = longer.get((chain[-1], teacher), []) if chain else []
            better = [i for i in others if self.verdicts == "ignore" or known[refs[i]].passed >= mine.passed]
            if better:
                steps, of = len(chain), better[0]
                evidence = {"kept": refs[of], "steps": steps, "kept_steps": len(chains[of])}
                choices[number] = Choice(False, "prefix", steps / len(chains[of]), evidence)
                continue
            for link in chain[:-1]:
                longer.setdefault((link, teacher), []).append(number)
        return Chosen(choices, side_rows(signatures=found.rows))


def _sign(trajectories: Sequence[Trajectory]) -> "list[Signed]":
    """Signatures of kind steps/1: the hash of every beginning of the trajectory, in order."""
    from tasks.curate.features import Signed

    signed = []
    for trajectory in trajectories:
        chain, last = [], ""
        for step in own_steps(trajectory):
            if step.source is Source.USER:
                last = digest(f"{last}\nuser\n{text_of(step.content)}")
            elif step.source is Source.AGENT:
                last = digest(f"{last}\nagent\n{action_text(step)}")
            else:
                continue
            chain.append(bytes.fromhex(last))
        signed.append(Signed(last, b"".join(chain)))
    return signed


def _chain(values: bytes) -> list[bytes]:
    return [values[at : at + _SIZE] for at in range(0, len(values), _SIZE)]
