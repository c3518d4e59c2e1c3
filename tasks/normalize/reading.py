"""What importers make of records: readings, and how those of one record are tied to each other."""

from collections.abc import Sequence

import msgspec

from schemas.ids import content_id
from schemas.rows import TokenSpan
from schemas.trajectory import Trajectory


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What a reader makes of a record: a trajectory (its id and provenance still open) and its token spans.

    `parent` is the number of the reading, of the same record, that this one branches off.
    """

    trajectory: Trajectory
    spans: tuple[TokenSpan, ...] = ()
    parent: int | None = None


def linked(readings: Sequence[Reading], made: list[Trajectory]) -> list[Trajectory]:
    """The trajectories of one record with their links to each other under the ids they have here."""
    by_source = {row.source_id: row.id for row in made if row.source_id is not None}
    linked: list[Trajectory] = []
    for reading, row in zip(readings, made, strict=True):
        parents = row.parents if reading.parent is None else (*row.parents, made[reading.parent].id)
        links = tuple(
            msgspec.structs.replace(link, trajectory_id=by_source.get(link.trajectory_id, link.trajectory_id))
            for link in row.subagents
        )
        linked.append(msgspec.structs.replace(row, parents=parents, subagents=links))
    return linked


def own_spans(spans: Sequence[TokenSpan], trajectory_id: str) -> list[TokenSpan]:
    """The token spans of a trajectory under its id."""
    return [
        msgspec.structs.replace(
            span, id=content_id("span", trajectory_id, span.step, order), trajectory_id=trajectory_id
        )
        for order, span in enumerate(spans)
    ]
