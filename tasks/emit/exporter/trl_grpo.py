"""RL rows for TRL's GRPOTrainer: one per task with its verifier, environment and group statistics.

Every column beside `prompt` reaches the reward function as a keyword argument. `verifier_spec` holds what the
verifier needs, hidden tests included: it belongs to the scorer and never into a prompt.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import pyarrow as pa

from schemas.ids import content_id
from schemas.rows import Verdict
from schemas.task import Task
from schemas.vocabulary import Stage
from tasks.context import Context
from tasks.emit import facts
from tasks.emit.base import Exporter, Made
from tasks.emit.groups import Group, curriculum_key, group_of, pass_at, roots_by_task
from tasks.operator import Item, Plan, Unit, WorkingSet, select_ids

_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("prompt", pa.list_(pa.struct([("role", pa.large_string()), ("content", pa.large_string())]))),
        ("tools", pa.large_string()),
        ("task_id", pa.large_string()),
        ("kind", pa.large_string()),
        ("ground_truth", pa.large_string()),
        ("verifier", pa.large_string()),
        ("verifier_spec", pa.large_string()),
        ("reward_spec", pa.large_string()),
        ("environment", pa.large_string()),
        ("environment_json", pa.large_string()),
        ("n", pa.int32()),
        ("c", pa.int32()),
        ("k", pa.int32()),
        ("pass_at_1", pa.float64()),
        ("pass_at_k", pa.float64()),
        ("mean_reward", pa.float64()),
        ("difficulty", pa.float64()),
        ("curriculum_key", pa.float64()),
    ]
)


class TrlGrpo(Exporter, frozen=True, kw_only=True):
    """One row per task that at least one verdict judged.

    groups: "all", or "mixed" to leave out tasks that every rollout solved (`all_pass`) or none (`all_fail`).
    k: the k of pass@k. trust_inside: also count verdicts reached beside the candidate's code; without it such
    tasks are left out (`trust_inside`). trust_model: also count verdicts that are a model's opinion (else
    `trust_model`). min_samples: judged rollouts that a row needs (else `few_samples`).
    """

    reads: ClassVar[Unit] = "task"
    schema: ClassVar[pa.Schema] = _SCHEMA
    about: ClassVar[str] = (
        "Tasks for reinforcement learning: `prompt`, the verifier and its specification (hidden tests included: for "
        "the scorer only), the environment, and how often the sampled policy solved the task. TRL's GRPOTrainer takes "
        "the rows as they are; every column reaches the reward function."
    )

    groups: Literal["all", "mixed"] = "all"
    k: int = 4
    trust_inside: bool = False
    trust_model: bool = False
    min_samples: int = 1

    def plan(self, inputs: WorkingSet, ctx: Context) -> Plan:
        """One item per task; its id covers the verdicts, so that a new sample makes a new row."""
        tasks = sorted(set(inputs.tasks))
        roots = roots_by_task(ctx, select_ids("trajectory", inputs))
        own = facts.side_rows(ctx, "verdicts", Stage.VERIFY, [ref for task in tasks for ref in roots.get(task, ())])
        items = []
        for task in tasks:
            rollouts = roots.get(task, [])
            verdicts = sorted(verdict for ref in rollouts for verdict in own.get(ref, ()))
            items.append(
                Item(id=content_id("group", task, verdicts), ref=task, group=task, params={"trajectories": rollouts})
            )
        return Plan(items=tuple(items), n_seen=len(tasks))

    def trajectories_of(self, item: Item) -> Sequence[str]:
        """The samples of the task."""
        return tuple(item.params["trajectories"])

    def make(self, items: Sequence[Item], ctx: Context) -> Iterator[Made]:
        """Rows in the order of the items."""
        verdicts = facts.verdicts_of(ctx, [ref for item in items for ref in item.params["trajectories"]])
        for item, task in zip(items, ctx.lake.tasks([item.ref for item in items]), strict=True):
            said = [verdict for ref in item.params["trajectories"] for verdict in verdicts.get(ref, ())]
            yield self._row(item, task, self._group(said, task))

    def _group(self, said: Sequence[Verdict], task: Task) -> Group:
        return group_of(said, task.verifier.use, inside=self.trust_inside, model=self.trust_model)

    def _row(self, item: Item, task: Task, group: Group) -> Made:
        if group.n == 0:
            aside = "trust_inside" if group.n_inside else "trust_model" if group.n_model else "no_verdict"
            return Made(item, reason=aside)
        if group.n < self.min_samples:
            return Made(item, reason="few_samples")
        if self.groups == "mixed" and group.c in (0, group.n):
            return Made(item, reason="all_pass" if group.c else "all_fail")
        environment = json.loads(task.environment_json) if task.environment_json else {}
        row: dict[str, Any] = {
            "id": task.id,
            "prompt": [{"role": message.role, "content": message.content} for message in task.prompt],
            "tools": task.tools_json,
            "task_id": task.id,
            "kind": task.kind,
            "ground_truth": task.gold,
            "verifier": task.verifier.use,
            "verifier_spec": task.verifier.spec_json,
            "reward_spec": '{"kind":"terminal","range":[0,1]}',
            "environment": environment.get("use"),
            "environment_json": task.environment_json,
            "n": group.n,
            "c": group.c,
            "k": self.k,
            "pass_at_1": pass_at(1, group.n, group.c),
            "pass_at_k": pass_at(self.k, group.n, group.c),
            "mean_reward": group.mean_reward,
            "difficulty": task.difficulty,
            "curriculum_key": curriculum_key(group.n, group.c),
        }
        mixed = {"mixed_groups": int(0 < group.c < group.n), "samples": group.n, "passed": group.c}
        return Made(item, (row,), licence=task.provenance.licence or "", facts=mixed)
