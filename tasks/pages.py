"""Web pages as text again: what an agent read lies in the blob folder, out of the rows that most operators need."""

import msgspec

from schemas.trajectory import Part, Step, Trajectory
from schemas.vocabulary import PartType
from tasks.media import is_page
from warehouse.blobs import Blobs
from warehouse.lake import Lake


def with_pages(trajectory: Trajectory, lake: Lake) -> Trajectory:
    """The trajectory with the text of its web pages in place; other media stay as they are.

    RecordError `blob_missing` or `blob_damaged` where the lake does not hold a page.
    """
    if not any(_stored(part) for step in trajectory.steps for part in parts_of(step)):
        return trajectory
    blobs = Blobs(lake)
    return msgspec.structs.replace(trajectory, steps=tuple(_step(step, blobs) for step in trajectory.steps))


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


def _step(step: Step, blobs: Blobs) -> Step:
    results = tuple(
        msgspec.structs.replace(result, content=tuple(page_of(part, blobs) for part in result.content))
        for result in step.results
    )
    return msgspec.structs.replace(step, content=tuple(page_of(part, blobs) for part in step.content), results=results)
