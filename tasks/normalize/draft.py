"""A trajectory while it is read: steps, tool sets, what was lost; and the fields that all formats share.

Fields that no format defines are treated alike everywhere: an outcome by its name, an id, the model; any other
value is kept in `extra_json`, unless it is very long: then its name goes to `lost_fields`.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from schemas.errors import RecordError
from schemas.trajectory import Outcome, Policy, Provenance, Step, ToolCall, ToolResult, Trajectory
from schemas.vocabulary import ActionSpace, PairedBy, Source
from tasks.normalize.decoder.found import Found, compact

SUCCESS = (
    "resolved",
    "success",
    "successful",
    "solved",
    "passed",
    "verified",
    "correct",
    "is_correct",
    "is_resolved",
    "is_success",
    "target",
)
SCORE = ("reward", "score", "final_reward", "total_reward", "rewards")
_OUTCOME = frozenset({*SUCCESS, *SCORE})
_IDS = ("id", "trajectory_id", "traj_id", "uuid", "instance_id", "task_id")
_MODELS = ("model", "model_name")
_LONG = 65_536
# A union is made anew wherever it stands in code, and these are asked for every field.
_ID, _NUMBER = (str, int), (int, float)


class Layout(NamedTuple):
    """What the fields of a record are, by their names: ids and models by precedence, those to leave out, the rest.

    outcome: whether any is an outcome by its name. only_id: the id that is all there is, where that is so.
    """

    ids: tuple[str, ...]
    models: tuple[str, ...]
    dropped: tuple[str, ...]
    rest: tuple[str, ...]
    outcome: bool
    only_id: str | None


@lru_cache(maxsize=1024)
def layout_of(names: tuple[str, ...], known: frozenset[str], drop: frozenset[str]) -> Layout:
    """The layout of records with these fields; `known` are what the reader has used, `drop` those to leave out."""
    ids = tuple(name for name in _IDS if name in names and name not in known)
    dropped = tuple(name for name in names if name in drop)
    rest = tuple(name for name in names if name not in known and name not in drop and name not in _OUTCOME)
    outcome = any(name in _OUTCOME for name in names)
    return Layout(
        ids=ids,
        models=tuple(name for name in _MODELS if name in names and name not in known),
        dropped=dropped,
        rest=rest,
        outcome=outcome,
        only_id=ids[0] if rest == ids[:1] and ids and not dropped and not outcome else None,
    )


class OutcomeNames(NamedTuple):
    """The fields of a record that say how it went, in its order; those of them that may be the success and the score,
    by precedence.
    """

    given: tuple[str, ...]
    flags: tuple[str, ...]
    scores: tuple[str, ...]


@lru_cache(maxsize=1024)
def outcome_names(names: tuple[str, ...], success: str | None, score: str | None) -> OutcomeNames:
    """The outcome's fields among those of a record; `success` and `score` are fields that an option names."""
    return OutcomeNames(
        given=tuple(name for name in names if name in _OUTCOME or name in (success, score)),
        flags=tuple(name for name in ((success,) if success else SUCCESS) if name in names),
        scores=tuple(name for name in ((score,) if score else SCORE) if name in names),
    )


class Draft:
    """Collects one trajectory."""

    __slots__ = ("code", "extra", "functions", "lost", "replaced", "steps", "thinking", "tool_sets")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.tool_sets: dict[str, int] = {}
        self.lost: set[str] = set()
        self.replaced: list[str] = []
        self.extra: dict[str, Any] = {}
        self.thinking = self.code = self.functions = False

    def lose(self, name: str) -> None:
        """Names a field of the source that has no place here."""
        self.lost.add(name)

    def lose_rest(self, item: Mapping[str, Any], known: Collection[str], where: str) -> None:
        """Names every field of `item` that is not in `known` and holds something."""
        for key, value in item.items():
            if key not in known and value is not None:
                self.lost.add(f"{where}.{key}")

    def tools(self, schemas: Any) -> int | None:
        """The index of a set of tool schemas (a list, or its JSON text); None when there is none."""
        if isinstance(schemas, str):
            from tasks.normalize.strict import decode

            text = schemas.strip()
            if not text:
                return None
            schemas = decode(text.encode("utf-8", "surrogatepass")).value
        if schemas is None or schemas == []:
            return None
        if isinstance(schemas, dict):
            schemas = [schemas]
        if not isinstance(schemas, list):
            raise RecordError("wrong_type", f"the tools are {type(schemas).__name__}, not a list")
        return self.tool_sets.setdefault(compact(schemas), len(self.tool_sets))

    def calls(self, found: tuple[Found, ...]) -> tuple[ToolCall, ...]:
        """The calls of the step that comes next, under our ids."""
        if not found:
            return ()
        prefix = f"s{len(self.steps)}c"
        made: list[ToolCall] = []
        for call in found:
            if call.code:
                self.code = True
            else:
                self.functions = True
            made.append(
                ToolCall(
                    id=f"{prefix}{len(made)}",
                    name=call.name,
                    arguments=call.arguments,
                    arguments_json=call.json,
                    state=call.state,
                    source_id=call.source_id,
                    id_generated=call.source_id is None,
                )
            )
        return tuple(made)

    def outcome(self, record: Mapping[str, Any], success: str | None = None, score: str | None = None) -> Outcome:
        """The outcome that the record's fields name; `success` and `score` are fields that an option names."""
        names = outcome_names(tuple(record), success, score)
        given = {key: value for key in names.given if (value := record[key]) is not None}
        if not given:
            return Outcome()
        flags = [value for key in names.flags if isinstance(value := given.get(key), bool)]
        numbers = [value for key in names.scores if (value := given.get(key)) is not None and type(value) is not bool]
        scores = [float(value) for value in numbers if isinstance(value, int | float)]
        return Outcome(
            success=flags[0] if flags else None, score=scores[0] if scores else None, raw_json=compact(given)
        )

    def rest(self, item: Mapping[str, Any], known: Collection[str], where: str = "") -> dict[str, Any]:
        """The fields of `item` outside `known` that hold something; too long ones are named as lost instead."""
        kept: dict[str, Any] = {}
        for key, value in item.items():
            if key not in known:
                _keep(kept, self.lost, key, value, where)
        return kept

    def finish(
        self,
        record: Mapping[str, Any],
        *,
        known: Collection[str] = (),
        drop: Collection[str] = (),
        outcome: Outcome | None = None,
        policy: Policy | None = None,
        source_id: str | None = None,
        truncated: bool = False,
    ) -> Trajectory:
        """The trajectory; `known` are the record's fields that the reader has used, `drop` those to leave out."""
        if not self.steps:
            raise RecordError("no_steps", "the record holds no message")
        layout = layout_of(tuple(record), frozenset(known), frozenset(drop))
        own_id, model = settle(record, layout, self.extra, self.lost, source_id is None, policy is None)
        source_id = own_id if source_id is None else source_id
        policy = Policy(model=model) if policy is None else policy
        if outcome is None:
            outcome = self.outcome(record)
        space = ActionSpace.FUNCTION if self.functions else ActionSpace.CODE if self.code else ActionSpace.MESSAGE
        return Trajectory(
            id="",
            steps=tuple(self.steps),
            tool_sets=tuple(self.tool_sets),
            policy=policy,
            provenance=Provenance(
                record=source_id, lost_fields=tuple(sorted(self.lost)), replaced_text=tuple(self.replaced)
            ),
            outcome=outcome,
            action_space=space,
            thinking=True if self.thinking else None,
            truncated=truncated,
            source_id=source_id,
            extra_json=compact(self.extra) if self.extra else None,
        )


def settle(
    record: Mapping[str, Any],
    layout: Layout,
    extra: dict[str, Any],
    lost: set[str],
    own_id: bool = True,
    own_model: bool = True,
) -> tuple[str | None, str | None]:
    """The id and the model that a record names itself; every other field is kept in `extra` or named as `lost`.

    own_id, own_model: whether to look for them.
    """
    id_key = model_key = source_id = model = None
    for key in layout.ids if own_id else ():
        value = record[key]
        if isinstance(value, _ID):
            id_key, source_id = key, str(value)
            if not isinstance(value, str):
                extra["id_type"] = type(value).__name__
            if key != "id":
                extra["id_field"] = key
            break
    for key in layout.models if own_model else ():
        if isinstance(record[key], str):
            model_key, model = key, record[key]
            if key != "model":
                extra["model_field"] = key
            break
    for key in layout.dropped:
        if record[key] is not None:
            lost.add(key)
    for key in layout.rest:
        if key not in (id_key, model_key):
            _keep(extra, lost, key, record[key])
    return source_id, model


def _keep(kept: dict[str, Any], lost: set[str], key: str, value: Any, where: str = "") -> None:
    if value is None:
        return
    size = len(value) if isinstance(value, str) else 0 if isinstance(value, _NUMBER) else len(compact(value))
    if size > _LONG:
        lost.add(f"{where}{key}")
    else:
        kept[key] = value


def pair(calls: tuple[ToolCall, ...], results: list[ToolResult]) -> tuple[ToolResult, ...]:
    """Gives every result the call it answers, one to one: by id, else by name, else by order.

    `results` hold what the source says (`source_call_id`, `name`); a named id that no call bears pairs with nothing.
    """
    if len(calls) == 1 and len(results) == 1:
        return (_paired(results[0], calls[0], _how(results[0], calls[0])),)
    open_calls = list(calls)
    chosen: list[tuple[ToolCall, PairedBy] | None] = [None] * len(results)
    for by in (PairedBy.ID, PairedBy.NAME, PairedBy.ORDER):
        for index, result in enumerate(results):
            if chosen[index] is not None or (by is not PairedBy.ID and result.source_call_id is not None):
                continue
            call = next((c for c in open_calls if _fits(result, c, by)), None)
            if call is not None:
                open_calls.remove(call)
                chosen[index] = (call, by)
    return tuple(
        result if match is None else _paired(result, match[0], match[1])
        for result, match in zip(results, chosen, strict=True)
    )


def _how(result: ToolResult, call: ToolCall) -> PairedBy:
    if result.source_call_id is None:
        return PairedBy.NAME if result.name is not None and result.name == call.name else PairedBy.ORDER
    return PairedBy.ID if result.source_call_id == call.source_id else PairedBy.NONE


def _fits(result: ToolResult, call: ToolCall, by: PairedBy) -> bool:
    if by is PairedBy.ID:
        return result.source_call_id is not None and result.source_call_id == call.source_id
    if by is PairedBy.NAME:
        return result.name is not None and result.name == call.name
    return True


def _paired(result: ToolResult, call: ToolCall, by: PairedBy) -> ToolResult:
    return ToolResult(
        call_id=None if by is PairedBy.NONE else call.id,
        source_call_id=result.source_call_id,
        name=result.name,
        content=result.content,
        is_error=result.is_error,
        paired_by=by,
    )


def weight_of(value: Any) -> float | None:
    """A loss weight from a number or a flag."""
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    return float(value) if isinstance(value, int | float) else None


SOURCES: dict[str, Source] = {
    "system": Source.SYSTEM,
    "developer": Source.SYSTEM,
    "user": Source.USER,
    "human": Source.USER,
    "assistant": Source.AGENT,
    "gpt": Source.AGENT,
    "agent": Source.AGENT,
    "model": Source.AGENT,
    "function_call": Source.AGENT,
    "tool": Source.ENVIRONMENT,
    "function": Source.ENVIRONMENT,
    "observation": Source.ENVIRONMENT,
    "environment": Source.ENVIRONMENT,
    "ipython": Source.ENVIRONMENT,
}
