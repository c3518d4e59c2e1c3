"""Calls a flow in this process: a Prefect server beside it, progress on standard error, Ctrl-C understood."""

import importlib
import os
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any

from gristmill.output import err
from gristmill.prefect_server import server
from gristmill.surroundings import prepare
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from flows.way import Summary


def call(flow_name: str, lake: str, *, quiet: bool, **parameters: Any) -> "Summary":
    """The summary of flow `flow_name` (flows/<name>.py) run against `lake`."""
    prepare(lake)
    if not quiet:
        err.print("starting Prefect", style="dim")
    with server(scheduler=False, meanwhile=lambda: importlib.import_module(f"flows.{flow_name}")):
        from flows.way import observe
        from gristmill.progress import Drawn

        flow = getattr(importlib.import_module(f"flows.{flow_name}"), flow_name)
        with Drawn(err) as drawn:
            observe(drawn)
            signal.signal(signal.SIGINT, _stop)
            try:
                summary: Summary = flow(lake=lake, **parameters)
            except KeyboardInterrupt:
                # Typer would end without a word.
                err.print("stopped: what was recorded stays recorded; the same command goes on from there")
                raise SystemExit(130) from None
            except RuntimeError as error:
                # What Prefect says of a server that the user named and that does not answer.
                if "Failed to reach API" not in str(error):
                    raise
                raise Unavailable("prefect_server", f"{error} (PREFECT_API_URL)") from error
    return summary


def _stop(_number: int, _frame: FrameType | None) -> None:
    """The first Ctrl-C lets the batches in flight end; the second ends at once, which loses nothing recorded."""
    signal.signal(signal.SIGINT, _end)
    err.print("[yellow]stopping when the batches in flight have ended; Ctrl-C again ends at once[/yellow]")
    raise KeyboardInterrupt


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(130)
