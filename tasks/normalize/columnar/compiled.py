"""Whether the kernels are compiled, and up to date.

numba notices a change of the file that an entry kernel stands in, not of those that it calls; so whatever is older than
any file of this folder is thrown away before it is loaded.
"""

from pathlib import Path

_HERE = Path(__file__).parent
_known: set[Path] = set()


def ready() -> bool:
    """`compiled`, asked until it is so: it looks at some forty files, which every batch would do."""
    if _HERE not in _known and compiled():
        _known.add(_HERE)
    return _HERE in _known


def compiled() -> bool:
    """Whether the kernels lie in numba's cache beside their modules, up to date; asked without importing numba."""
    newest = _newest()
    return any(file.stat().st_mtime_ns >= newest for file in (_HERE / "__pycache__").glob("steps.assemble-*.nbi"))


def forget_stale() -> None:
    """Throws away compiled kernels that are older than any of their sources."""
    newest = _newest()
    for file in (_HERE / "__pycache__").glob("*.nbi"):
        if file.stat().st_mtime_ns < newest:
            file.unlink(missing_ok=True)


def _newest() -> int:
    return max(file.stat().st_mtime_ns for file in _HERE.glob("*.py"))
