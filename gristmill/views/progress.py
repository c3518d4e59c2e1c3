"""Draws a run while it goes: one line per entry with a bar, and its counts when it is done."""

import threading
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from gristmill.views.output import reasons_text
from schemas.vocabulary import Stage
from tasks.batch import BatchSummary
from tasks.stage import EntryReport

# Without a terminal a line is printed when nothing was for so long, seconds.
_SIGN_OF_LIFE_S = 30.0


class Drawn:
    """An observer (see flows.way.Observer) that draws on a console; plain lines where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("batches"),
            TimeElapsedColumn(),
            _Calls(self),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.current = self.progress.add_task("starting Prefect", total=1)
        self._calls: Callable[[], dict[str, float]] = dict
        self._before: dict[str, float] = {}
        self._spoke = time.monotonic()
        self._ended = threading.Event()

    def __enter__(self) -> "Drawn":
        self.progress.start()
        if not self.console.is_terminal:
            threading.Thread(target=self._live, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.progress.stop()

    def begin(self, calls: Callable[[], dict[str, float]]) -> None:
        """Remembers where the run's calls are counted."""
        self._calls = calls

    def say(self, text: str) -> None:
        """Prints a message."""
        self._print(f"    {text}", style="dim")

    def entry(self, stage: Stage, name: str, batches: int, items: int, share: float) -> None:
        """Starts the bar of an entry, or of its next part."""
        part = f", {share:.0%} of the input" if share < 1 else ""
        text = f"{stage.value} {name} ({items} items{part})"
        self._before = dict(self._calls())
        self.progress.reset(self.current, total=max(batches, 1), description=text)

    def batch(self, summary: BatchSummary) -> None:
        """Moves the bar."""
        self.progress.advance(self.current)

    def done(self, report: EntryReport) -> None:
        """Prints the entry's counts."""
        self.progress.reset(self.current, total=1, description="counting and planning")
        name = f"  {report.stage.value:<11}{report.name:<18}"
        if report.n_in == 0:
            self._print(f"{name}0 of {report.n_seen} eligible")
            return
        eligible = f" eligible of {report.n_seen}" if report.n_in < report.n_seen else ""
        counts = f"{report.n_in}{eligible}: kept {report.n_kept}, dropped {report.n_dropped}"
        for word, count in (("dead", report.n_dead), ("pending", report.n_pending)):
            counts += f", {word} {count}" if count else ""
        decided = report.n_in - report.n_pending
        if report.n_new < decided:
            counts += f" ({report.n_new or 'none'} new)"
        self._print(f"{name}{counts}  {reasons_text(report.reasons)}")
        for fault in report.faults[:3]:
            self._print(f"    {fault}", style="yellow")

    def calls(self) -> str:
        """What the entry's model calls came to so far; empty for none."""
        now = self._calls()
        made, tokens = (now.get(name, 0.0) - self._before.get(name, 0.0) for name in ("calls", "completion_tokens"))
        return f"{made:.0f} calls, {tokens:.0f} tokens" if made > 0 else ""

    def _print(self, text: str, style: str = "") -> None:
        self._spoke = time.monotonic()
        self.console.print(text, style=style or None, markup=False)

    def _live(self) -> None:
        while not self._ended.wait(1.0):
            if time.monotonic() - self._spoke < _SIGN_OF_LIFE_S:
                continue
            task = self.progress.tasks[0]
            parts = [f"{task.completed:.0f} of {task.total:.0f} batches", self.calls()]
            self._print(f"    {task.description}: {', '.join(filter(None, parts))}", style="dim")


class _Calls(ProgressColumn):
    """The model calls of the entry under way: a batch may be hundreds of them."""

    def __init__(self, drawn: Drawn) -> None:
        super().__init__()
        self.drawn = drawn

    def render(self, task: Task) -> Text:
        """See ProgressColumn."""
        return Text(self.drawn.calls(), style="dim")
