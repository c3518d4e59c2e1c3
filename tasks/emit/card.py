"""The dataset card: Markdown whose YAML head makes `datasets.load_dataset(FOLDER)` work as it is.

The head names the files and declares every column's type, so that nothing is inferred from the first rows: a
column that is null in one file and text in the next, or dates inside strings, load as declared. It also holds a
hash of the content: `datasets` caches what it has loaded under the folder's name and the card alone, and would give
the rows of another folder `sft`, or of this one before its refresh.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.ids import digest
from tasks.emit.manifest import CARD, Manifest


def write_card(folder: Path, manifest: Manifest, schema: pa.Schema, about: str) -> None:
    """Writes README.md beside the shards; `about` says in a sentence or two what a row is and who loads it."""
    lines = [
        "---",
        *([f"license: {json.dumps(manifest.licence)}"] if manifest.licence else []),
        *_head(manifest, schema),
        "---",
    ]
    lines += [f"# {manifest.dataset}: {manifest.label}", "", about, "", "## Counts", ""]
    lines += [f"- format: {manifest.format}", f"- items looked at: {manifest.n_items}", f"- rows: {manifest.n_rows}"]
    lines += [f"- left out, {reason}: {count}" for reason, count in sorted(manifest.left_out.items())]
    if manifest.tokens is not None:
        lines += [f"- tokens {name.replace('_', ' ')}: {count}" for name, count in manifest.tokens.items()]
    if manifest.mask_ratio is not None:
        lines += [f"- share of tokens with a loss: {manifest.mask_ratio:.4f}"]
    lines += [f"- {name.replace('_', ' ')}: {count}" for name, count in sorted(manifest.facts.items())]
    lines += ["", "## Columns", ""]
    lines += [f"- `{field.name}`: {_words(field.type)}" for field in schema]
    lines += ["", "## Lineage", "", f"- recipe: {manifest.lineage.recipe} ({manifest.lineage.recipe_fingerprint})"]
    lines += [f"- {step['stage']}: {step['use']} ({step['fingerprint']})" for step in manifest.lineage.operators]
    lines += ["", "Written by Gristmill. `manifest.json` holds each file's sha256.", ""]
    (folder / CARD).write_text("\n".join(lines), encoding="utf-8")


def _head(manifest: Manifest, schema: pa.Schema) -> list[str]:
    lines = ["configs:", "- config_name: default", "  data_files:", "  - split: train"]
    content = digest("\n".join(f"{file.path} {file.sha256}" for file in manifest.written))
    lines += [f"    path: data/*.{manifest.container}", "dataset_info:", "- config_name: default"]
    lines += [f"  description: content {content}", "  features:"]
    for field in schema:
        lines += [f"  - name: {field.name}", *_feature(field.type, "    ")]
    return lines


def _feature(kind: pa.DataType, indent: str) -> list[str]:
    """The YAML of one column's type, in the notation of dataset cards."""
    if pa.types.is_list(kind):
        child = kind.value_type
        if pa.types.is_struct(child):
            return [f"{indent}list:", *_fields(child, indent)]
        if pa.types.is_list(child):
            return [f"{indent}list:", *_feature(child, indent + "  ")]
        return [f"{indent}list: {_dtype(child)}"]
    if pa.types.is_struct(kind):
        return [f"{indent}struct:", *_fields(kind, indent)]
    return [f"{indent}dtype: {_dtype(kind)}"]


def _fields(kind: Any, indent: str) -> list[str]:
    lines = []
    for field in kind:
        lines += [f"{indent}- name: {field.name}", *_feature(field.type, indent + "  ")]
    return lines


def _dtype(kind: pa.DataType) -> str:
    if isinstance(kind, pa.JsonType):
        return "json"
    names = {pa.float32(): "float32", pa.float64(): "float64", pa.bool_(): "bool"}
    return names.get(kind, str(kind))


def _words(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_words(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "{" + ", ".join(f"{field.name}: {_words(field.type)}" for field in kind) + "}"
    return {"json": "JSON", "large_string": "text"}.get(_dtype(kind), _dtype(kind))
