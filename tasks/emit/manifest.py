"""The manifest of a shard folder: what is in it, what was left out and why, and what it was made from.

It is written last, so a folder with a manifest is whole. It holds no run id, snapshot, clock time or machine
path: those stand in the lake's `exports` row. The same input therefore gives the same manifest.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import UserError
from schemas.trajectory import Base
from tasks.emit.media import MediaFile
from tasks.emit.shards import ShardFile, sha256_of

MANIFEST = "manifest.json"
CARD = "README.md"
VERSION = 1


class Lineage(Base, frozen=True):
    """What a folder was made from: the recipe's fingerprint and each upstream operator's, in order."""

    recipe: str
    recipe_fingerprint: str
    operators: tuple[dict[str, str], ...] = ()


class Manifest(Base, frozen=True):
    """One shard folder. `selection` is the hash of the planned item ids, `left_out` reason → items dropped.

    `tokens`: how many went in, came out, were left out (in = out + left out) and are trained on; None where the
    format holds no tokens. `mask_ratio` is trained / out. `licence` is the recipe's word, or the one licence that
    every row's source carries; `licences` counts rows by what their source carries ("" for nothing). `facts` are
    counts that only this format has; `media` the files that rows name.
    """

    gristmill: int
    dataset: str
    label: str
    format: str
    fingerprint: str
    selection: str
    container: str
    schema_text: str
    n_items: int
    n_kept: int
    n_rows: int
    left_out: dict[str, int]
    files: tuple[ShardFile, ...]
    lineage: Lineage
    licence: str
    licences: dict[str, int]
    tokens: dict[str, int] | None = None
    mask_ratio: float | None = None
    tokenizer: dict[str, Any] | None = None
    facts: dict[str, int] = {}
    media: tuple[MediaFile, ...] = ()

    @property
    def written(self) -> tuple[ShardFile | MediaFile, ...]:
        """Every file beside the manifest and the card."""
        return (*self.files, *self.media)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the manifest; the text is the same for the same manifest."""
    text = json.dumps(msgspec.to_builtins(manifest), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a shard folder; UserError when there is none or it is not ours."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(
            f"'{folder}' holds no shards: {MANIFEST} is missing.",
            "A shard folder is written by an [[emit]] entry or by `gristmill export`; its manifest comes last.",
            "Give the folder of an exporter, or run the export again.",
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' is not a manifest of Gristmill: {error}", todo="Run the export again.") from error
    if manifest.gristmill != VERSION:
        raise UserError(f"'{path}' has manifest version {manifest.gristmill}; this version reads {VERSION}.")
    return manifest


def manifest_sha256(folder: Path) -> str:
    """The sha256 of the manifest, which names every shard's own: the identity of the whole folder."""
    return sha256_of(folder / MANIFEST)


def differences(folder: Path, manifest: Manifest) -> list[str]:
    """What does not fit the manifest: missing or changed files, counts that do not add up; empty when whole."""
    found = []
    for file in manifest.written:
        path = folder / file.path
        if not path.is_file():
            found.append(f"{file.path} is missing")
        elif sha256_of(path) != file.sha256:
            found.append(f"{file.path} is not the file that was written")
    if sum(file.rows for file in manifest.files) != manifest.n_rows:
        found.append("the files' rows do not add up to n_rows")
    if manifest.n_items != manifest.n_kept + sum(manifest.left_out.values()):
        found.append("n_items is not n_kept plus what was left out")
    if manifest.tokens and manifest.tokens["in"] != manifest.tokens["out"] + manifest.tokens["left_out"]:
        found.append("tokens in are not tokens out plus tokens left out")
    return found
