"""What every flow shares: one run of one recipe, taken through its stages.

A flow reads top to bottom as `way.take(stage, prefect_task)`; this module opens the lake, submits batches to
Prefect's task runner, keeps the working set, reports progress and closes the run. No logic of a stage is here.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from prefect import Task
from prefect.artifacts import create_table_artifact
from prefect.exceptions import TerminationSignal
from prefect.futures import PrefectFuture, as_completed
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.dataset import PARTS
from schemas.errors import FaultError, MissingExtra, UserError
from schemas.ids import canonical_json, content_id
from schemas.recipe import Recipe
from schemas.rows import RunEvent
from schemas.vocabulary import Stage
from tasks.batch import BatchRef, BatchSummary
from tasks.client.redact import guard_logs, redact
from tasks.context import Context
from tasks.curate.explore import source_losses
from tasks.emit.base import Exporter
from tasks.operator import WorkingSet
from tasks.recipe import entries, operator_of
from tasks.running import forget, register
from tasks.stage import EntryPlan, EntryReport, Part, finish_entry, finish_part, plan_entry, record_plan
from tasks.train.base import Trainer
from warehouse.checkpoint import checkpoint
from warehouse.counts import check_counts
from warehouse.lake import Lake, Stamp

BatchTask = Task[[BatchRef], BatchSummary]

# How long a run that is to terminate waits for its batches in flight, seconds.
_STOP_S = 20.0

_CLUSTER = re.compile(r"local|auto|ray://[A-Za-z0-9.\[\]:-]+:[0-9]+")


class Observer(Protocol):
    """Who is told how a run goes; the command line draws it."""

    def begin(self, calls: Callable[[], dict[str, float]]) -> None:
        """A run begins; `calls` gives what its model calls came to so far, at any time."""

    def say(self, text: str) -> None:
        """A plug-in or the model client has something to tell: a shortage, a training step, a slow endpoint."""

    def entry(self, stage: Stage, name: str, batches: int, items: int, share: float) -> None:
        """An entry begins, with so many batches and planned items.

        One with a large input is announced part by part; `share` is how much of the input is then planned, 0 to 1.
        """

    def batch(self, summary: BatchSummary) -> None:
        """A batch ended."""

    def done(self, report: EntryReport) -> None:
        """An entry ended."""


class Silent:
    """An observer that says nothing."""

    def begin(self, calls: Callable[[], dict[str, float]]) -> None:
        """Says nothing."""

    def say(self, text: str) -> None:
        """Says nothing."""

    def entry(self, stage: Stage, name: str, batches: int, items: int, share: float) -> None:
        """Says nothing."""

    def batch(self, summary: BatchSummary) -> None:
        """Says nothing."""

    def done(self, report: EntryReport) -> None:
        """Says nothing."""


_observer: Observer = Silent()


def observe(observer: Observer) -> None:
    """Makes `observer` the one of this process's runs."""
    global _observer  # noqa: PLW0603 - one command line per process
    _observer = observer


_lent: dict[str, Lake] = {}


@contextmanager
def lent(address: str, lake: Lake) -> Iterator[None]:
    """The runs of this process against `address` use an open lake meanwhile; they leave it open."""
    _lent[address] = lake
    try:
        yield
    finally:
        del _lent[address]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a flow returns: a run's entries with their counts, its calls, where its shards and checkpoints are."""

    run_id: str
    recipe: str
    lake: str
    entries: tuple[EntryReport, ...]
    calls: dict[str, float]
    shards: tuple[tuple[str, str], ...]
    seconds: float
    failed_share: float
    max_failed: float
    over_limit: bool
    alarms: tuple[str, ...] = ()
    checkpoints: tuple[tuple[str, str], ...] = ()


def batch_runner() -> TaskRunner[Any]:
    """Where a flow's batches run: threads of this process, or the Ray cluster that GRISTMILL_RAY names.

    GRISTMILL_RAY: "local" starts one on this machine, "auto" takes the one that runs here, "ray://HOST:10001" another.
    MissingExtra: Ray is not installed. UserError: the variable names no cluster.
    """
    cluster = os.environ.get("GRISTMILL_RAY", "")
    if not cluster:
        # Prefect's own default starts every batch of an entry at once: memory followed. So many keep cores and
        # endpoints busy, since a batch of calls has up to 256 of them in flight.
        return ThreadPoolTaskRunner(max_workers=max(4, 2 * (os.cpu_count() or 1)))
    if not _CLUSTER.fullmatch(cluster):
        raise UserError(f"GRISTMILL_RAY={cluster!r} names no cluster.", 'Known: "local", "auto", "ray://HOST:PORT".')
    # Ray reports its use to its makers unless told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        from prefect_ray import RayTaskRunner
    except ImportError:
        raise MissingExtra("prefect-ray", "ray") from None
    options: dict[str, Any] = {"address": cluster}
    if cluster == "local":
        options = {"init_kwargs": {"include_dashboard": False}}
    runner: TaskRunner[Any] = RayTaskRunner(**options)
    return runner


class _Begun(NamedTuple):
    """A part of an entry whose batches run, since when (seconds, monotonic)."""

    planned: EntryPlan
    futures: list[PrefectFuture[BatchSummary]]
    since: float


class Way:
    """A run under way."""

    def __init__(self, ctx: Context, working: WorkingSet | None = None) -> None:
        self.ctx, self.working = ctx, working or WorkingSet()
        self.reports: list[EntryReport] = []
        self.checkpoints: list[tuple[str, str]] = []
        self.started = time.monotonic()

    def take(self, stage: Stage, batch_task: BatchTask) -> None:
        """Takes the working set through every entry of `stage`, in order."""
        for entry in range(len(entries(self.ctx.recipe, stage))):
            self.working = self._entry(stage, entry, batch_task, self.working)

    def verify_refined(self, before: WorkingSet, batch_task: BatchTask) -> None:
        """Verifies the trajectories that refining made since `before`; the older ones have their verdicts."""
        old = frozenset(before.trajectories)
        fresh = WorkingSet(trajectories=tuple(ref for ref in self.working.trajectories if ref not in old))
        if fresh.trajectories:
            for entry in range(len(entries(self.ctx.recipe, Stage.VERIFY))):
                self._entry(Stage.VERIFY, entry, batch_task, fresh)

    def _entry(self, stage: Stage, entry: int, batch_task: BatchTask, inputs: WorkingSet) -> WorkingSet:
        started = time.monotonic()
        name = operator_of(self.ctx.recipe, stage, entry).plugin_id()
        ended: list[Part] = []
        begun: _Begun | None = None
        for planned in plan_entry(self.ctx, stage, entry, inputs):
            since = time.monotonic()
            futures = [batch_task.submit(ref) for ref in planned.batches]
            # One part is planned while another's batches run.
            if begun is not None:
                ended.append(self._end(begun, inputs))
            _observer.entry(stage, name, len(planned.batches), len(planned.plan.items), planned.plan.share)
            begun = _Begun(planned, futures, since)
        assert begun is not None
        ended.append(self._end(begun, inputs))
        planned = begun.planned
        working, report = finish_entry(inputs, ended, time.monotonic() - started)
        _observer.done(report)
        self.reports.append(report)
        if isinstance(planned.operator, Exporter):
            folder = planned.operator.folder(self.ctx)
            if folder.is_dir():
                written = (planned.operator.label, str(folder))
                working = msgspec.structs.replace(working, shards=(*working.shards, written))
        if isinstance(planned.operator, Trainer) and planned.operator.folder(self.ctx).is_dir():
            self.checkpoints.append((planned.operator.label, str(planned.operator.folder(self.ctx))))
        return working

    def _end(self, begun: "_Begun", inputs: WorkingSet) -> Part:
        """Waits for the batches of a part and checks its counts."""
        summaries: list[BatchSummary] = []
        for future in as_completed(begun.futures):
            summaries.append(future.result())
            _observer.batch(summaries[-1])
        return finish_part(self.ctx, begun.planned, inputs, summaries, time.monotonic() - begun.since)

    def summary(self) -> Summary:
        """What this run did so far."""
        planned = sum(report.n_in for report in self.reports)
        failed = sum(report.n_dead for report in self.reports)
        share = failed / planned if planned else 0.0
        return Summary(
            run_id=self.ctx.run_id,
            recipe=self.ctx.recipe.name,
            lake=self.ctx.lake.address,
            entries=tuple(self.reports),
            calls=self.ctx.calls(),
            shards=self.working.shards,
            seconds=time.monotonic() - self.started,
            failed_share=share,
            max_failed=self.ctx.recipe.max_failed,
            alarms=self._alarms(),
            checkpoints=tuple(self.checkpoints),
            over_limit=any(r.n_in and r.n_dead / r.n_in > self.ctx.recipe.max_failed for r in self.reports),
        )

    def _alarms(self) -> tuple[str, ...]:
        """A sentence per source that a selector emptied beyond what the recipe expects."""
        most = self.ctx.recipe.max_source_loss
        if most is None:
            return ()
        curated = range(len(entries(self.ctx.recipe, Stage.CURATE)))
        prints = [operator_of(self.ctx.recipe, Stage.CURATE, entry).fingerprint(self.ctx) for entry in curated]
        return tuple(
            f"{loss.operator} dropped {loss.dropped} of {loss.n} from '{loss.dataset}', mostly {loss.reason}"
            for loss in source_losses(self.ctx, prints, most)
        )

    def finish(self, *, publish: bool = True) -> Summary:
        """Records the finished run, checks the counts, writes Prefect's summary table.

        publish: the run's working set becomes the dataset of its recipe's name; not for exports and trainings.
        """
        lake, ctx = self.ctx.lake, self.ctx
        stamp = Stamp(ctx.run_id, "run", content_id("recipe", ctx.recipe))
        hashes = self._record_working(stamp) if publish else None
        summary = self.summary()
        event = RunEvent(
            id=content_id("run", ctx.run_id, "finished"),
            event="finished",
            recipe=ctx.recipe.name,
            recipe_json=canonical_json(ctx.recipe),
            seconds=summary.seconds,
            status="over_limit" if summary.over_limit else "done",
            summary_json=canonical_json(
                {"working": hashes, "folder": str(ctx.recipe_dir), "calls": summary.calls, "shards": summary.shards}
            ),
        )
        lake.append(stamp, {"runs": [event]})
        violations = check_counts(lake, ctx.run_id)
        if violations:
            raise FaultError("counts do not reconcile: " + "; ".join(violations))
        if publish:
            checkpoint(lake)
        create_table_artifact(
            key=f"gristmill-{ctx.recipe.name.replace('_', '-')}",
            table=[
                {**msgspec.to_builtins(r), "reasons": json.dumps(r.reasons), "faults": len(r.faults)}
                for r in self.reports
            ],
            description=f"Run {ctx.run_id} of {ctx.recipe.name}: every count of every stage.",
        )
        return summary

    def _record_working(self, stamp: Stamp) -> dict[str, str | None]:
        """Records each part of the working set under the hash of its ids, once."""
        hashes: dict[str, str | None] = {}
        for part in PARTS:
            ids = getattr(self.working, part)
            hashes[part] = None if ids is None else record_plan(self.ctx.lake, stamp, ids)
        return hashes


@contextmanager
def under_way(
    recipe: Recipe,
    lake: str,
    recipe_dir: str = ".",
    out: str = "",
    *,
    limit: int | None = None,
    working: WorkingSet | None = None,
) -> Iterator[Way]:
    """Opens the lake and a run of `recipe`; ends its models, client and sandbox whatever happens."""
    guard_logs()
    opened = _lent.get(lake) or Lake.open(lake)
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    folder = Path(out or recipe.out or f"out/{recipe.name}").expanduser().resolve()
    ctx = Context(recipe, opened, run_id, Path(recipe_dir).resolve(), folder, limit=limit, say=_observer.say)
    register(ctx)
    _observer.begin(ctx.calls)
    patience_s: float | None = None
    try:
        stamp = Stamp(run_id, "run", content_id("recipe", recipe))
        opened.append(
            stamp,
            {
                "runs": [
                    RunEvent(
                        id=content_id("run", run_id, "started"),
                        event="started",
                        recipe=recipe.name,
                        recipe_json=canonical_json(recipe),
                    )
                ]
            },
        )
        try:
            yield Way(ctx, working)
        except BaseException as error:
            _record_failure(ctx, stamp, error)
            # A service manager kills what does not end soon.
            patience_s = _STOP_S if isinstance(error, TerminationSignal) else None
            raise
        # Not after an error or a signal: batches may still run in Prefect's threads, and a database that is closed
        # under its own query blocks for ever. The process's end closes it then, and frees its leases.
        if lake not in _lent:
            opened.close()
    finally:
        forget(ctx, patience_s)


def _record_failure(ctx: Context, stamp: Stamp, error: BaseException) -> None:
    """Notes in `runs` why the run ended early, where that is still possible; it changes nothing else."""
    # A service manager's SIGTERM reaches a flow as Prefect's own error.
    stopped = isinstance(error, KeyboardInterrupt | SystemExit | TerminationSignal)
    text = "" if stopped else redact(f"{type(error).__name__}: {error}")[:2000]
    event = RunEvent(
        id=content_id("run", ctx.run_id, "failed"),
        event="failed",
        recipe=ctx.recipe.name,
        status="stopped" if stopped else "failed",
        summary_json=canonical_json({"error": text}),
    )
    with suppress(Exception):
        ctx.lake.append(stamp, {"runs": [event]})
