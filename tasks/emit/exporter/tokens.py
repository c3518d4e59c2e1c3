"""Token rows: ids, labels and masks that a trainer uses verbatim, so that no template or loader decides about loss.

Loads in TRL as it is (`input_ids`, `labels`); `loss_mask` serves trainers that want a mask. Ids are the sampled
ones where the model calls were recorded and chain; else the chat is rendered and tokenised (`token_source`).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from schemas.ids import canonical_json, content_id
from schemas.trajectory import Trajectory
from tasks.context import Context
from tasks.emit import facts
from tasks.emit.base import Exporter, Made, Tokens
from tasks.emit.messages import json_text
from tasks.emit.model_folder import model_folder, tokenizer_digest
from tasks.emit.rows import SCHEMA, TokenRow, columns
from tasks.emit.shards import Row
from tasks.emit.tokenise import Draft, Tokenised, draft, tokenise
from tasks.emit.tokenizer import ChatTokenizer
from tasks.operator import Item


@lru_cache(maxsize=4)
def _tokenizer(folder: Path, template: str, _: str) -> ChatTokenizer:
    return ChatTokenizer.load(folder, template)


class TokensExporter(Exporter, frozen=True, kw_only=True):
    """One row per kept trajectory and branch.

    tokenizer: a model's folder; empty for the embedded model's. template: a chat template file; empty for the
    tokenizer's own, or its marked twin. max_tokens: longer rows are left out as `too_long`, never cut; 0 is no
    limit. ids: "auto" takes sampled ids where they exist, "retokenized" never. chats: also write `messages`.
    trust_inside, trust_model: whether verdicts reached beside the candidate's code, and a model's opinions, count in
    `reward`.
    """

    schema: ClassVar[pa.Schema] = SCHEMA
    inert: ClassVar[frozenset[str]] = frozenset({"tokenizer", "template"})
    about: ClassVar[str] = (
        "Tokenised conversations: `input_ids` with `labels` (-100 where there is no loss), `loss_mask`, where each "
        "token came from, and the reward. TRL's SFTTrainer takes the rows as they are."
    )

    tokenizer: str = ""
    template: str = ""
    max_tokens: int = 0
    ids: Literal["auto", "retokenized"] = "auto"
    chats: bool = True
    trust_inside: bool = False
    trust_model: bool = False

    def fingerprint(self, ctx: Context) -> str:
        """The options and the content of tokenizer and template, not their paths."""
        return content_id("operator", self.identity(), tokenizer_digest(ctx, self.tokenizer, self.template))

    def load(self, ctx: Context) -> ChatTokenizer:
        """The tokenizer, loaded once per process."""
        template = str(ctx.path(self.template)) if self.template else ""
        digest = tokenizer_digest(ctx, self.tokenizer, self.template)
        return _tokenizer(model_folder(ctx, self.tokenizer), template, digest)

    def tokenizer_identity(self, ctx: Context) -> dict[str, Any] | None:
        """Hashes of the tokenizer and the template."""
        return self.load(ctx).identity

    def make(self, items: Sequence[Item], ctx: Context) -> Iterator[Made]:
        """Rows in the order of the items."""
        ids = [item.ref for item in items]
        labels, verdicts = facts.labels_of(ctx, ids), facts.verdicts_of(ctx, ids)
        spans = ctx.lake.token_spans(ids) if self.ids == "auto" else {}
        drafts = [draft(t, labels.get(t.id, ()), spans.get(t.id, ()), ctx.lake) for t in ctx.lake.trajectories(ids)]
        made = tokenise(drafts, self.load(ctx), sampled=self.ids == "auto")
        for item, each, tokenised in zip(items, drafts, made, strict=True):
            reward = facts.reward_of(verdicts.get(item.ref, ()), inside=self.trust_inside, model=self.trust_model)
            yield self._made(item, each, tokenised, reward)

    def _made(self, item: Item, each: Draft, tokenised: Tokenised, reward: float | None) -> Made:
        trajectory = each.trajectory
        rows: list[Row] = []
        given = sum(len(row.ids) for row in tokenised.rows)
        trained = 0
        reasons = [tokenised.reason]
        for branch, (row, cut) in enumerate(zip(tokenised.rows, tokenised.truncated, strict=True)):
            if self.max_tokens and len(row.ids) > self.max_tokens:
                reasons.append("too_long")
            elif not np.any(row.weights > 0):
                reasons.append("zero_mask")
            else:
                rows.append(self._row(each, tokenised.source, branch, row, reward, cut))
                trained += int(np.count_nonzero(row.weights > 0))
        written = sum(len(row["input_ids"]) for row in rows)
        left = len(tokenised.rows) - len(rows)
        counts = {f"{tokenised.source}_rows": len(rows), "branches_left_out": left if rows else 0}
        return Made(
            item,
            rows,
            "ok" if rows else reasons[-1],
            Tokens(given, written, trained),
            trajectory.provenance.licence or "",
            counts,
        )

    def _row(self, each: Draft, source: str, branch: int, row: TokenRow, reward: float | None, cut: bool) -> Row:
        trajectory, chat = each.trajectory, each.chat if self.chats else None
        return {
            "id": trajectory.id,
            "branch_id": branch,
            "token_source": source,
            **columns(row),
            "messages": [json_text(message) for message in chat.messages] if chat else None,
            "tools": json_text(chat.tools) if chat and chat.tools else None,
            "reward": reward,
            "truncated": cut,
            "task_id": trajectory.task_id,
            "meta": _meta(trajectory),
        }


def _meta(trajectory: Trajectory) -> str:
    """Who acted and where the record came from, as JSON text."""
    policy, origin = trajectory.policy, trajectory.provenance
    known = {
        "teacher": policy.teacher,
        "model": policy.model,
        "revision": policy.revision,
        "strategy": policy.strategy,
        "dataset": origin.dataset,
        "licence": origin.licence,
        "sample_index": trajectory.sample_index,
    }
    return canonical_json({key: value for key, value in known.items() if value is not None})
