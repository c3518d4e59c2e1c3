"""Media of a trajectory on their way out: blobs become files beside the shards, or data URLs inside of the rows.

A file is `data/media/<sha256>.<ending>`; rows name it relative to their shard, as `media/<sha256>.<ending>`. Web
pages become text again, since that is what the agent read. Media that were never taken in keep their URI.
"""

import base64
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from schemas.trajectory import Base, Part, Step, Trajectory
from tasks.media import UNKNOWN, ending_of, is_page
from tasks.pages import page_of, parts_of
from warehouse.blobs import Blobs

Form = Literal["file", "data"]
FOLDER = "media"


class MediaFile(Base, frozen=True):
    """A media file of a shard folder: path relative to the folder, size in bytes, sha256 of its content."""

    path: str
    bytes: int
    sha256: str


class Placed(NamedTuple):
    """A trajectory whose media are where the rows will look for them; `files`: name in the media folder → sha256."""

    trajectory: Trajectory
    files: dict[str, str]


def placed(trajectory: Trajectory, blobs: Blobs, form: Form) -> Placed:
    """Gives every blob its place; RecordError `blob_missing` or `blob_damaged`."""
    if not any(part.sha256 is not None for step in trajectory.steps for part in parts_of(step)):
        return Placed(trajectory, {})
    files: dict[str, str] = {}
    steps = tuple(_step(step, blobs, form, files) for step in trajectory.steps)
    return Placed(msgspec.structs.replace(trajectory, steps=steps), files)


class MediaFolder:
    """Writes the media of a shard folder, each content once."""

    def __init__(self, folder: Path, blobs: Blobs) -> None:
        self._folder, self._blobs = folder, blobs
        self._files: dict[str, MediaFile] = {}

    def add(self, files: dict[str, str]) -> None:
        """Copies blobs under the given names; RecordError when one is gone."""
        for name, sha256 in files.items():
            if name in self._files:
                continue
            data = self._blobs.get(sha256)
            path = self._folder / "data" / FOLDER / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            short = path.relative_to(self._folder).as_posix()
            self._files[name] = MediaFile(path=short, bytes=len(data), sha256=sha256)

    def files(self) -> tuple[MediaFile, ...]:
        """What was written, by name."""
        return tuple(self._files[name] for name in sorted(self._files))


def _step(step: Step, blobs: Blobs, form: Form, files: dict[str, str]) -> Step:
    results = tuple(
        msgspec.structs.replace(result, content=tuple(_part(part, blobs, form, files) for part in result.content))
        for result in step.results
    )
    return msgspec.structs.replace(
        step, content=tuple(_part(part, blobs, form, files) for part in step.content), results=results
    )


def _part(part: Part, blobs: Blobs, form: Form, files: dict[str, str]) -> Part:
    if part.sha256 is None:
        return part
    if is_page(part):
        return page_of(part, blobs)
    if form == "data":
        body = base64.b64encode(blobs.get(part.sha256)).decode()
        return msgspec.structs.replace(part, uri=f"data:{part.media_type or UNKNOWN};base64,{body}")
    name = f"{part.sha256}{ending_of(part.media_type)}"
    files[name] = part.sha256
    return msgspec.structs.replace(part, uri=f"{FOLDER}/{name}")
