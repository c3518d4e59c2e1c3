"""Draws a run while it goes: one line per entry with a bar, and its counts when it is done."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gristmill.output import reasons_text
from schemas.vocabulary import Stage
from tasks.batch import BatchSummary
from tasks.stage import EntryReport


class Drawn:
    """An observer (see flows.way.Observer) that draws on a console; a plain line per entry where it is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("batches"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.current = self.progress.add_task("starting", total=1)

    def __enter__(self) -> "Drawn":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def entry(self, stage: Stage, name: str, batches: int, items: int, share: float) -> None:
        """Starts the bar of an entry, or of its next part."""
        part = f", {share:.0%} of the input" if share < 1 else ""
        text = f"{stage.value} {name} ({items} items{part})"
        self.progress.reset(self.current, total=max(batches, 1), description=text)

    def batch(self, summary: BatchSummary) -> None:
        """Moves the bar."""
        self.progress.advance(self.current)

    def done(self, report: EntryReport) -> None:
        """Prints the entry's counts."""
        eligible = f" of {report.n_seen} seen" if report.n_in < report.n_seen else ""
        if report.n_in == 0:
            eligible = f"0 of {report.n_seen} eligible"
            self.console.print(f"  {report.stage.value:<11}{report.name:<18}{eligible}")
            return
        counts = f"{report.n_in}{eligible}: kept {report.n_kept}, dropped {report.n_dropped}"
        for word, count in (("dead", report.n_dead), ("pending", report.n_pending)):
            counts += f", {word} {count}" if count else ""
        self.console.print(
            f"  {report.stage.value:<11}{report.name:<18}{counts}  [dim]{reasons_text(report.reasons)}[/dim]"
        )
        for fault in report.faults[:3]:
            self.console.print(f"    [yellow]{fault}[/yellow]")
