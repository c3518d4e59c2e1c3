"""Looks for what a sandbox may have left behind."""

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import psutil


def wait_for_none(look: Callable[[], Collection[Any]], seconds: float = 5.0) -> Collection[Any]:
    """What `look` still finds after it was given `seconds` to find nothing."""
    end = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def survivors(processes: Sequence[psutil.Process], seconds: float = 5.0) -> Sequence[psutil.Process]:
    """Those of a killed owner's processes that still run, after the kernel and the next start had their turn.

    bubblewrap's inner process, cut off in the moment in which it starts, is ended by the next start only.
    """
    from tasks.sandbox.sandbox import Sandbox

    def running() -> list[psutil.Process]:
        return [each for each in processes if _runs(each)]

    if cut_off := wait_for_none(running, seconds):
        assert {each.name() for each in cut_off} <= {"bwrap"}, cut_off
        Sandbox.start(1, warm=0).close()
    return wait_for_none(running, seconds)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def below(pid: int, without: Collection[str] = ()) -> list[str]:
    """Descendants of a process but for those named in `without`: what other tests keep running is none of ours."""
    try:
        found = [f"{each.pid} {each.name()}" for each in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    return [each for each in found if each not in without]


def descriptors() -> set[str]:
    """This process's open descriptors, by number and by what they lead to."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        # The listing's own descriptor is gone by now.
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{path.name} {path.readlink()}")
    return found
