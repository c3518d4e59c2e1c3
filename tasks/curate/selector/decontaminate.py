"""Bars trajectories that overlap with a benchmark."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from schemas.errors import UserError
from schemas.ids import content_id
from schemas.trajectory import Base, Trajectory, text_of
from schemas.vocabulary import Source
from tasks.curate.base import KEEP, Choice, Selector, side_rows
from tasks.curate.benchmarks import Index, file_hash, index, instance_of, place_of
from tasks.curate.view import own_steps, view_text
from tasks.operator import Item, Result, Unit

if TYPE_CHECKING:
    from tasks.context import Context


class Benchmark(Base, frozen=True):
    """A benchmark file and how strictly it is guarded; fields left out are taken from the selector."""

    path: str
    name: str = ""
    fields: tuple[str, ...] = ()
    n: int | None = None
    min_shared: int | None = None
    min_score: float | None = None
    common: int | None = None
    semantic: float | None = None


# From the clearest sign to the least clear one.
REASONS = ("contaminated_place", "contaminated", "contaminated_exact", "contaminated_semantic")
_SHOWN, _SHORT = 300, 40


class Decontaminate(Selector, frozen=True, kw_only=True):
    """Bars trajectories that overlap with a benchmark.

    Reasons: contaminated (n-grams), contaminated_exact (a short row is the prompt), contaminated_place
    (repository and commit, or instance id), contaminated_semantic. What is dropped is barred from RL and pairs too,
    and all trajectories are looked at, not only those that other selectors kept.

    The evidence names benchmark, row (from 0), the row's text, the first matching n-gram, how many n-grams are
    shared and the score: the share of the row's n-grams that occur in the trajectory.

    benchmarks: a list of tables: path (JSONL, JSON, Parquet or text, relative to the recipe) and, where they differ
    from the selector's, name, fields, n, min_shared, min_score, common, semantic. benchmark: one file in short.
    fields: the fields whose text counts, empty for all.
    n: words in an n-gram. A shorter text of a row is compared exactly with what a user said.
    min_shared: least number of shared n-grams; min_score: least share of the row's.
    common: n-grams that stand in at least so many texts of a benchmark are its boilerplate and do not count; 0: none.
    semantic: least cosine similarity of the prompt and a row's text that counts; none: not looked at.
    """

    bars_everywhere: ClassVar[bool] = True
    reads: ClassVar[Unit] = "trajectory"
    batch_size: ClassVar[int] = 2048

    benchmark: str = ""
    benchmarks: tuple[Benchmark, ...] = ()
    fields: tuple[str, ...] = ()
    n: Annotated[int, Meta(ge=2)] = 13
    min_shared: Annotated[int, Meta(ge=1)] = 1
    min_score: Annotated[float, Meta(ge=0, le=1)] = 0.0
    common: Annotated[int, Meta(ge=0)] = 3
    semantic: float | None = None

    def fingerprint(self, ctx: "Context") -> str:
        """The options with the content of the files in place of their paths."""
        settled = [guard[1:] for guard in self._guards(ctx)]
        return content_id("operator", self.plugin_id(), self.version, settled)

    def run(self, items: Sequence[Item], ctx: "Context") -> Result:
        """The clearest sign decides: place or instance, then shared n-grams, then an exact prompt, then meaning."""
        refs = [item.ref for item in items]
        trajectories = ctx.lake.trajectories(refs)
        places = _places(trajectories, ctx)
        wholes = [view_text(trajectory, "whole") for trajectory in trajectories]
        found: dict[int, Choice] = {}
        rows: dict[str, Any] = {}
        for guard in self._guards(ctx):
            for number, place in enumerate(places):
                _first(found, number, _by_place(guard, place))
            self._by_ngrams(guard, wholes, found)
            for number, trajectory in enumerate(trajectories):
                _first(found, number, _by_exact(guard, trajectory))
            if guard.semantic is not None:
                rows["embeddings"] = _by_meaning(guard, refs, found, ctx) or rows.get("embeddings")
        outcomes = tuple(found.get(number, KEEP).outcome(item) for number, item in enumerate(items))
        return Result(outcomes=outcomes, rows=side_rows(**rows))

    def _by_ngrams(self, guard: "_Guard", texts: Sequence[str], found: dict[int, Choice]) -> None:
        from tasks.curate.similarity.words import without_signs, words

        known = guard.rows()
        for number, hits in enumerate(known.ngrams.hits(texts)):
            strong = [hit for hit in hits if hit.shared >= guard.min_shared and hit.score >= guard.min_score]
            if strong:
                hit = strong[0]
                ngram = " ".join(words(without_signs(texts[number]))[hit.place : hit.place + guard.n])
                evidence = {
                    **guard.evidence(known.owners[hit.row], known.texts[hit.row]),
                    "ngram": ngram,
                    "shared": hit.shared,
                }
                _first(found, number, Choice(False, "contaminated", hit.score, evidence))

    def refuse_early(self, folder: Path) -> None:
        """Refuses a benchmark that is no file."""
        for given in [*([self.benchmark] if self.benchmark else []), *(one.path for one in self.benchmarks)]:
            path = folder / Path(given).expanduser()
            if not path.exists():
                raise UserError(f"No benchmark at '{given}' ({path}).", "Relative paths are relative to the recipe.")

    def _guards(self, ctx: "Context") -> "list[_Guard]":
        given = [*([Benchmark(path=self.benchmark)] if self.benchmark else []), *self.benchmarks]
        if not given:
            raise UserError(
                "The selector 'decontaminate' names no benchmark.",
                "",
                'Write benchmark = "FILE" or [[curate.benchmarks]].',
            )
        return [self._guard(one, ctx) for one in given]

    def _guard(self, one: Benchmark, ctx: "Context") -> "_Guard":
        path = ctx.path(one.path)

        def settled(name: str) -> Any:
            value = getattr(one, name)
            return getattr(self, name) if value is None or value == () else value

        return _Guard(
            path,
            file_hash(path),
            one.name or path.name,
            *(settled(name) for name in ("fields", "n", "min_shared", "min_score", "common", "semantic")),
        )


class _Guard(NamedTuple):
    """A benchmark with every option settled."""

    path: Path
    hashed: str
    name: str
    fields: tuple[str, ...]
    n: int
    min_shared: int
    min_score: float
    common: int
    semantic: float | None

    def rows(self) -> Index:
        """The index over its rows, made once a process."""
        return index(self.path, self.hashed, self.fields, self.n, self.common)

    def evidence(self, row: int, text: str) -> dict[str, Any]:
        """What every hit says."""
        return {"benchmark": self.name, "row": row, "text": text[:_SHOWN]}


def _first(found: dict[int, Choice], number: int, choice: Choice | None) -> None:
    """Keeps the clearest sign, and of two equally clear ones the higher score, then the earlier benchmark."""
    if choice is None:
        return
    before = found.get(number)
    if before is None or _clearness(choice) < _clearness(before):
        found[number] = choice


def _clearness(choice: Choice) -> tuple[int, float]:
    return REASONS.index(choice.reason), -(choice.score or 0.0)


def _by_place(guard: _Guard, place: "_Place") -> Choice | None:
    known = guard.rows()
    if place.instance is not None and place.instance in known.instances:
        evidence = guard.evidence(known.instances[place.instance], place.instance)
        return Choice(False, "contaminated_place", 1.0, evidence)
    if place.commit is not None and place.commit in known.places:
        return Choice(False, "contaminated_place", 1.0, guard.evidence(known.places[place.commit], place.commit))
    return None


def _by_exact(guard: _Guard, trajectory: Trajectory) -> Choice | None:
    from tasks.curate.similarity.words import without_signs, words

    known = guard.rows()
    if known.short:
        for step in own_steps(trajectory):
            text = text_of(step.content)
            # A text of n words or more has n-grams; its beginning alone tells that it is longer.
            if step.source is Source.USER and len(text) < _SHORT * guard.n:
                row = known.short.get(" ".join(words(without_signs(text))).lower())
                if row is not None:
                    return Choice(False, "contaminated_exact", 1.0, guard.evidence(row, text))
    return None


def _by_meaning(guard: _Guard, refs: Sequence[str], found: dict[int, Choice], ctx: "Context") -> Any:
    """Looks for rows that say the same as a prompt; the new embeddings of the prompts, for the lake."""
    from tasks.curate.similarity.embed import embed_rows, embeddings

    known = guard.rows()
    made = embeddings(ctx.lake, refs, "prompt")
    if not known.texts:
        return made.rows
    cosines = (made.vectors @ embed_rows(known.texts).T).round(4)
    for number, (best, row) in enumerate(zip(cosines.max(axis=1), cosines.argmax(axis=1), strict=True)):
        if guard.semantic is not None and best >= guard.semantic:
            evidence = guard.evidence(known.owners[int(row)], known.texts[int(row)])
            score = round(float(best), 4)
            _first(found, number, Choice(False, "contaminated_semantic", score, {**evidence, "cosine": score}))
    return made.rows


class _Place(NamedTuple):
    """Where a trajectory's task stands: repository and commit, and the name a benchmark gave it."""

    commit: str | None
    instance: str | None


def _places(trajectories: Sequence[Trajectory], ctx: "Context") -> list[_Place]:
    """From the task's environment and from what the source said beside the steps."""
    wanted = sorted({one.task_id for one in trajectories if one.task_id})
    environments = {
        row["id"]: row["environment_json"]
        for row in ctx.lake.sql(
            "select id, environment_json from tasks where id in (select id from ids)", ids=wanted
        ).to_pylist()
    }
    places = []
    for one in trajectories:
        said = [_object(environments.get(one.task_id)), _object(one.extra_json)]
        commit = next(filter(None, (place_of(record) for record in said)), None)
        instance = next(filter(None, (instance_of(record) for record in said)), one.source_id)
        places.append(_Place(commit, instance))
    return places


def _object(text: str | None) -> dict[str, Any]:
    value = msgspec.json.decode(text) if text else {}
    return value if isinstance(value, dict) else {}
