"""Audits a folder of token shards from the disk: files, counts, masks, and what the masks say in words.

    python -m tasks.emit.audit DIR [--tokenizer DIR]

Everything is recomputed from the shards; the manifest is only what is checked. With a tokenizer the ids under
the mask are decoded: they must be what the policy said, message by message, and nothing that a user or a tool said.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from schemas.errors import UserError
from schemas.trajectory import Base
from tasks.emit.manifest import Manifest, differences, read_manifest
from tasks.emit.rows import RETOKENIZED, faults
from tasks.emit.tokenizer import ChatTokenizer

# Findings kept in words; the rest is counted.
_SHOWN = 20


class Audit(Base, frozen=True):
    """What an audit found. `ok` when nothing is wrong; `trained` and `tokens` are recounted from the rows."""

    folder: str
    rows: int
    tokens: int
    trained: int
    n_findings: int
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.n_findings == 0


def audit(folder: Path, tokenizer: ChatTokenizer | None = None) -> Audit:
    """Audits the token shards in `folder`; UserError when it holds none, or when the tokenizer is another one."""
    manifest = read_manifest(folder)
    if manifest.tokens is None or manifest.tokenizer is None:
        raise UserError(f"'{folder}' holds rows of format {manifest.format}.", "Only token shards have masks.")
    if tokenizer is not None and tokenizer.identity["sha256"] != manifest.tokenizer["sha256"]:
        raise UserError(
            "The tokenizer is not the one that wrote these shards.",
            f"Written with {manifest.tokenizer['sha256']}, given {tokenizer.identity['sha256']}.",
        )
    findings = differences(folder, manifest)
    if findings:
        # Other bytes than those that were written: nothing that they say is worth a count.
        return Audit(
            folder=str(folder), rows=0, tokens=0, trained=0, n_findings=len(findings), findings=tuple(findings[:_SHOWN])
        )
    rows = tokens = trained = 0
    for row in read_rows(folder, manifest):
        rows += 1
        tokens += len(row["input_ids"])
        trained += sum(row["loss_mask"])
        said = [f"{row['id']}/{row['branch_id']}: {fault}" for fault in faults(row)]
        if tokenizer is not None and not said:
            said = [f"{row['id']}/{row['branch_id']}: {fault}" for fault in spoken_faults(row, tokenizer)]
        findings.extend(said)
    expected = {"rows": manifest.n_rows, "tokens": manifest.tokens["out"], "trained": manifest.tokens["trained"]}
    found = {"rows": rows, "tokens": tokens, "trained": trained}
    findings.extend(
        f"{name}: the manifest says {expected[name]}, the shards hold {found[name]}"
        for name in expected
        if expected[name] != found[name]
    )
    return Audit(folder=str(folder), n_findings=len(findings), findings=tuple(findings[:_SHOWN]), **found)


def read_rows(folder: Path, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """Every row of a Parquet folder, in order, JSON columns as text."""
    for file in manifest.files:
        with pq.ParquetFile(folder / file.path) as shard:
            for batch in shard.iter_batches(batch_size=64):
                yield from batch.to_pylist()


def spoken_faults(row: dict[str, Any], tokenizer: ChatTokenizer) -> list[str]:
    """What is wrong with the words under the mask: segments of the policy must hold its messages, and only those."""
    ids = row["input_ids"]
    if row["messages"] is None:
        return []
    found = []
    decode = tokenizer.backend.decode
    messages = [json.loads(message) for message in row["messages"]]
    spoken = [message for message in messages if message["role"] == "assistant"]
    segments = [segment for segment in row["segments"] if segment["role"] == "agent"]
    texts = [decode(ids[s["start"] : s["end"]], skip_special_tokens=False) for s in segments]
    if row["token_source"] == RETOKENIZED:
        text = decode(ids, skip_special_tokens=False)
        again = tokenizer.backend.encode(text, add_special_tokens=False).ids
        if list(again) != list(ids):
            found.append("the ids do not survive decoding and encoding")
        said = "".join(texts)
        for message in spoken:
            if (message["content"] or "").strip() not in said:
                found.append(f"an answer is not in the policy's segments: {message['content'][:60]!r}")
    starts = {str(tokenizer.backend.id_to_token(i)) for i in tokenizer.stop_ids}
    for text in texts:
        body = text.rstrip()
        for stop in starts:
            body = body.removesuffix(stop)
        if any(stop in body for stop in starts):
            found.append(f"a segment of the policy runs past the end of its turn: {text[:60]!r}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 when nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tasks.emit.audit", description="Audits a folder of token shards.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    given = parser.parse_args(arguments)
    report = audit(given.folder, ChatTokenizer.load(given.tokenizer) if given.tokenizer else None)
    sys.stdout.write(
        f"{report.rows} rows, {report.tokens} tokens, {report.trained} with a loss, {report.n_findings} findings\n"
    )
    sys.stdout.writelines(f"{finding}\n" for finding in report.findings)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
