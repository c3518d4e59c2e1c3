"""Calls a flow in this process: a Prefect server beside it, progress on standard error, Ctrl-C understood."""

import gc
import importlib
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from gristmill.server.process import server
from gristmill.server.settings import prepare
from gristmill.views.output import err
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from flows.way import Summary
    from warehouse.lake import Lake

# Modules that a flow's run would import when nothing else is left to do.
_LATER = (
    "fastapi.encoders",
    "gristmill.views.progress",
    "prefect.flow_engine",
    "prefect.task_engine",
    "pyarrow.dataset",
)


def call(
    flow_name: str,
    lake: str,
    *,
    quiet: bool,
    check: "Callable[[Lake], None]" = lambda _: None,
    shown: "Callable[[Summary, Lake], None]" = lambda _, __: None,
    **parameters: Any,
) -> "Summary":
    """The summary of flow `flow_name` (flows/<name>.py) run against `lake`.

    check: asked before the flow begins; its UserError ends the call. shown: told the summary, while the server ends.
    """
    prepare(lake)
    opened: list[Lake] = []

    def meanwhile() -> None:
        from warehouse.lake import Lake

        opened.append(Lake.open(lake))
        check(opened[0])
        if not quiet:
            err.print("starting Prefect", style="dim")
        # What is imported stays: looking for garbage in it took a tenth of the time.
        gc.disable()
        try:
            for name in (f"flows.{flow_name}", *_LATER):
                importlib.import_module(name)
            gc.freeze()
        finally:
            gc.enable()
        opened[0].warm()

    done: list[Summary] = []

    def afterwards() -> None:
        shown(done[0], opened[0])
        opened[0].close()

    with server(scheduler=False, meanwhile=meanwhile, afterwards=afterwards):
        from flows.way import lent, observe
        from gristmill.views.progress import Drawn

        flow = getattr(importlib.import_module(f"flows.{flow_name}"), flow_name)
        with Drawn(err) as drawn, lent(lake, opened[0]):
            observe(drawn)
            signal.signal(signal.SIGINT, _stop)
            try:
                done.append(flow(lake=lake, **parameters))
            except KeyboardInterrupt:
                # Typer would end without a word.
                err.print("stopped: what was recorded stays recorded; the same command goes on from there")
                raise SystemExit(130) from None
            except RuntimeError as error:
                # What Prefect says of a server that the user named and that does not answer.
                if "Failed to reach API" not in str(error):
                    raise
                raise Unavailable("prefect_server", f"{error} (PREFECT_API_URL)") from error
    return done[0]


def _stop(_number: int, _frame: FrameType | None) -> None:
    """The first Ctrl-C lets the batches in flight end; the second ends at once, which loses nothing recorded."""
    signal.signal(signal.SIGINT, _end)
    err.print("[yellow]stopping when the batches in flight have ended; Ctrl-C again ends at once[/yellow]")
    raise KeyboardInterrupt


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(130)
