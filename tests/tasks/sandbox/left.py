"""Looks for what a sandbox may have left behind."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import psutil


def wait_for_none(look: Callable[[], Sequence[Any]], seconds: float = 5.0) -> Sequence[Any]:
    """What `look` still finds after it was given `seconds` to find nothing."""
    end = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def jails() -> list[str]:
    """Command lines of every bwrap and runner on this machine that belongs to `mine`."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if "/opt/python/runner.pyc" in line:
            found.append(f"{process.pid} {line}")
    return found


def below(pid: int) -> list[str]:
    """Descendants of a process."""
    try:
        return [f"{each.pid} {each.name()}" for each in psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
