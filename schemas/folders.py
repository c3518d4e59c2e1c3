"""Where things are kept that can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`gristmill` below $XDG_CACHE_HOME, if that is an absolute path as its standard asks, else below ~/.cache.

    RuntimeError where nobody knows the user's home.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path("~/.cache").expanduser()) / "gristmill"
