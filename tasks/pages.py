"""Web pages as text again: what an agent read lies in the blob folder, out of the rows that most operators need."""

from collections.abc import Callable

import msgspec

from schemas.trajectory import Part, Step, Trajectory
from schemas.vocabulary import PartType
from tasks.media import is_page
from warehouse.blobs import Blobs, key_of
from warehouse.lake import Lake


def with_pages(trajectory: Trajectory, lake: Lake) -> Trajectory:
    """The trajectory with the text of its web pages in place; other media stay as they are.

    RecordError `blob_missing` or `blob_damaged` where the lake does not hold a page.
    """
    if not any(_stored(part) for step in trajectory.steps for part in parts_of(step)):
        return trajectory
    blobs = Blobs(lake)
    return _mapped(trajectory, lambda part: page_of(part, blobs))


def without_pages(trajectory: Trajectory, lake: Lake) -> Trajectory:
    """The trajectory with its web pages in the blob folder. Unavailable: they cannot be stored now."""
    if not any(_inline(part) for step in trajectory.steps for part in parts_of(step)):
        return trajectory
    blobs = Blobs(lake)
    return _mapped(trajectory, lambda part: _put(part, blobs))


def parts_of(step: Step) -> tuple[Part, ...]:
    """Everything that a step shows: what was said, and what came back."""
    return (*step.content, *(part for result in step.results for part in result.content))


def page_of(part: Part, blobs: Blobs) -> Part:
    """A stored page as a text part; any other part as it is."""
    if not _stored(part) or part.sha256 is None:
        return part
    return Part(type=PartType.TEXT, text=blobs.get(part.sha256).decode(), media_type=part.media_type)


def _stored(part: Part) -> bool:
    return part.sha256 is not None and is_page(part)


def _inline(part: Part) -> bool:
    return part.text is not None and is_page(part)


def _put(part: Part, blobs: Blobs) -> Part:
    if part.text is None or not is_page(part):
        return part
    sha256 = blobs.put(part.text.encode())
    return Part(type=PartType.FILE, media_type=part.media_type, sha256=sha256, uri=part.uri or key_of(sha256))


def _mapped(trajectory: Trajectory, change: Callable[[Part], Part]) -> Trajectory:
    steps = [
        msgspec.structs.replace(
            step,
            content=tuple(map(change, step.content)),
            results=tuple(
                msgspec.structs.replace(result, content=tuple(map(change, result.content))) for result in step.results
            ),
        )
        for step in trajectory.steps
    ]
    return msgspec.structs.replace(trajectory, steps=tuple(steps))
