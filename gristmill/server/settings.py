"""Prepares Prefect's settings before it is imported: quiet, offline, its database beside the lake.

A user who sets PREFECT_API_URL or PREFECT_HOME keeps the upper hand.
"""

import ctypes
import os
from pathlib import Path

from warehouse.address import resolve

_DEFAULTS = {
    # A cold server start took up to 26 s on two cores; Prefect's own limit of 20 s is too short.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "240",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_CLI_PROMPT": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Waiting OpenMP threads spin by default: two threads on a busy machine gave 11 tokens/s, yielding ones 38.
    "OMP_WAIT_POLICY": "PASSIVE",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


# glibc's mallopt: the number of heaps, and from which size on memory is taken from the system and given back to it.
_HEAPS, _MMAP_FROM, _TRIM_FROM = (-8, 2), (-3, 1 << 20), (-1, 8 << 20)


def _give_back_memory() -> None:
    """Freed memory goes back to the system: with a heap per thread, each kept the most that it ever held."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Not glibc.
        return
    for option, value in (_HEAPS, _MMAP_FROM, _TRIM_FROM):
        mallopt(option, value)


def prepare(lake: str) -> None:
    """Sets defaults for everything this process and its children import later; never overrides the user's own.

    UserError: `lake` is no address of a lake.
    """
    root = resolve(lake).root
    _give_back_memory()
    for key, value in _DEFAULTS.items():
        os.environ.setdefault(key, value)
    if "PREFECT_API_URL" not in os.environ and "PREFECT_HOME" not in os.environ:
        home = Path(root) / "_prefect" if root is not None else Path.home() / ".gristmill" / "prefect"
        home.mkdir(parents=True, exist_ok=True)
        os.environ["PREFECT_HOME"] = str(home)
