"""Any JSONL, Parquet or Arrow set through a declarative mapping; see `tasks.normalize.mapping` for its tables."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from schemas.ids import content_id
from tasks.normalize.base import Importer
from tasks.normalize.chat import Reader
from tasks.normalize.draft import Draft
from tasks.normalize.mapping import (
    Column,
    Mapping,
    RecordMap,
    TurnMap,
    at,
    checked,
    dialect_of,
    load_mapping,
    outcome_of,
    turns_of,
    used_fields,
)
from tasks.normalize.plain import Plain
from tasks.normalize.reading import Reading
from tasks.normalize.transcript import an_object, transcript

if TYPE_CHECKING:
    from tasks.context import Context


class MappingImporter(Importer, frozen=True, kw_only=True, dict=True):
    """Reads records as a mapping says.

    map: a TOML file with the mapping. record, turns, columns: the same tables, written in the recipe instead.
    """

    inert: ClassVar[frozenset[str]] = frozenset({"paths", "map"})

    map: str | None = None
    record: RecordMap = RecordMap()
    turns: TurnMap | None = None
    columns: tuple[Column, ...] = ()

    def fingerprint(self, ctx: "Context") -> str:
        """The mapping counts by what it says, wherever its file stands."""
        return content_id("operator", self.identity(), self._mapping(ctx))

    def _mapping(self, ctx: "Context") -> Mapping:
        if "mapping" not in self.__dict__:
            given = Mapping(record=self.record, turns=self.turns, columns=self.columns)
            self.__dict__["mapping"] = checked(load_mapping(ctx.path(self.map)) if self.map is not None else given)
        found: Mapping = self.__dict__["mapping"]
        return found

    @cached_property
    def reader(self) -> Reader:
        """Reads the turns in the dialect that the mapping describes."""
        mapping: Mapping = self.__dict__["mapping"]
        return Reader(dialect_of(mapping.turns or TurnMap()))

    def plain(self, ctx: "Context") -> Plain | None:
        """Records whose turns are a top-level list; turns of a role and a text are read as chat messages are."""
        mapping = self._mapping(ctx)
        turns = mapping.turns
        if turns is None or mapping.columns or "." in turns.at or not isinstance(turns.content, str):
            return None
        more = (turns.reasoning, turns.name, turns.timestamp, turns.weight, turns.reward, turns.call_id, turns.call)
        if "." in turns.role + turns.content or any(path is not None for path in more):
            return None
        return Plain((turns.at,), self.reader, mapping.action_space, turns.role, turns.content)

    def read(self, record: Any) -> Sequence[Reading]:
        """One trajectory."""
        record = an_object(record)
        mapping: Mapping = self.__dict__.get("mapping") or checked(
            Mapping(record=self.record, turns=self.turns, columns=self.columns)
        )
        self.__dict__["mapping"] = mapping
        spec = mapping.record
        draft = Draft()
        key = at(record, spec.id) if spec.id is not None else None
        model = at(record, spec.model) if spec.model is not None else None
        reading = transcript(
            turns_of(record, mapping, draft),
            draft,
            record | ({"model": model} if isinstance(model, str) else {}),
            tools=at(record, spec.tools) if spec.tools is not None else None,
            reader=self.reader,
            known=used_fields(mapping) - {"model"},
            drop=(*self.drop_fields, *spec.drop),
            outcome=outcome_of(record, spec),
            source_id=None if key is None else str(key),
        )
        licence = at(record, spec.licence) if spec.licence is not None else None
        changes: dict[str, Any] = {}
        if isinstance(licence, str):
            changes["provenance"] = msgspec.structs.replace(reading.trajectory.provenance, licence=licence)
        if mapping.action_space is not None:
            changes["action_space"] = mapping.action_space
        if not changes:
            return (reading,)
        return (Reading(msgspec.structs.replace(reading.trajectory, **changes), reading.spans),)
