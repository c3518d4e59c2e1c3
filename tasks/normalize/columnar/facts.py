"""What a record says beside its turns.

Where fields are judged by their names alone, `tasks.normalize.draft` does it without the rest of the reader; else the
reference reader reads the record with a turn that stands in for its own.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tasks.normalize.decoder.found import compact
from tasks.normalize.draft import Draft, Layout, layout_of, settle
from tasks.normalize.plain import Plain

if TYPE_CHECKING:
    from tasks.normalize.reading import Reading


class Facts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a trajectory that do not depend on its turns. system: a text in front of them.

    A struct because it is made in a tenth of a named tuple's time, once per record.
    """

    source_id: str | None
    model: str | None
    success: bool | None
    score: float | None
    raw_json: str | None
    extra_json: str | None
    lost: tuple[str, ...]
    tool_sets: tuple[str, ...]
    licence: str | None
    system: str | None


class Wide(msgspec.Struct, frozen=True):
    """A long text of a record: the number of its field, and how it stands in the record, as our encoder writes it."""

    field: int
    raw: memoryview


class Judge:
    """Finds the facts of records."""

    def __init__(self, plain: Plain, read: "Callable[[Any], Sequence[Reading]]", role: str) -> None:
        self.plain, self.read = plain, read
        self.stand_in = [{plain.role: role, plain.content: "x"}]
        named = frozenset(name for name in (plain.success, plain.score) if name is not None)
        self.known = [named | {field} for field in plain.fields]
        # By field of the turns and names of all fields; None where the reference reader must look at the values.
        self.layouts: list[dict[tuple[str, ...], Layout | None]] = [{} for _ in plain.fields]
        self.named = bool(named)
        # Of records whose only field beside the turns is an id: that field, and what is kept of it, by its type alone.
        self.only_ids: list[dict[tuple[str, ...], tuple[str, dict[type, str | None]]]] = [{} for _ in plain.fields]

    def facts(self, record: dict[str, Any], field: int, wide: Wide | None = None) -> Facts:
        """The facts of a record; field: the number of the one that holds its turns. Raises RecordError.

        wide: a text that the record has something else in place of.
        """
        names = tuple(record)
        only = self.only_ids[field].get(names)
        if only is not None and wide is None:
            value = record[only[0]]
            if type(value) in only[1]:
                return Facts(str(value), None, None, None, None, only[1][type(value)], (), (), None, None)
        layouts = self.layouts[field]
        if names not in layouts:
            simple = self.plain.simple and self.plain.odd.isdisjoint(names)
            layouts[names] = layout_of(names, self.known[field], self.plain.drop) if simple else None
        layout = layouts[names]
        if layout is None:
            if wide is not None:
                record[names[wide.field]] = msgspec.json.decode(wide.raw)
            record[self.plain.fields[field]] = self.stand_in
            return _read_facts(self.read, record)
        if wide is not None:
            # A text that is only kept goes to `extra_json` without being unescaped and escaped again.
            name = names[wide.field]
            only_kept = name in layout.rest and name not in layout.ids and name not in layout.models
            record[name] = msgspec.Raw(wide.raw) if only_kept else msgspec.json.decode(wide.raw)
        kept: dict[str, Any] = {}
        left: set[str] = set()
        source_id, model = settle(record, layout, kept, left)
        success = score = raw = None
        if layout.outcome or self.named:
            outcome = Draft().outcome(record, self.plain.success, self.plain.score)
            success, score, raw = outcome.success, outcome.score, outcome.raw_json
        extra = compact(kept) if kept else None
        if layout.only_id is not None and source_id is not None and not self.named:
            own = self.only_ids[field].setdefault(names, (layout.only_id, {}))
            own[1][type(record[layout.only_id])] = extra
        lost = tuple(sorted(left)) if left else ()
        return Facts(source_id, model, success, score, raw, extra, lost, (), None, None)


def _read_facts(read: "Callable[[Any], Sequence[Reading]]", record: dict[str, Any]) -> Facts:
    """The facts of a record that holds one turn of the user in place of its own. Raises RecordError."""
    made = read(record)[0].trajectory
    return Facts(
        source_id=made.source_id,
        model=made.policy.model,
        success=made.outcome.success,
        score=made.outcome.score,
        raw_json=made.outcome.raw_json,
        extra_json=made.extra_json,
        lost=made.provenance.lost_fields,
        tool_sets=made.tool_sets,
        licence=made.provenance.licence,
        system=made.steps[0].content[0].text if len(made.steps) > 1 else None,
    )
