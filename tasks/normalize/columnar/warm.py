"""Whether the kernels are compiled, and compiling them ahead (some 15 s, once per machine and version)."""

from pathlib import Path


def compiled() -> bool:
    """Whether the kernels lie in numba's cache beside their modules; asked without importing numba."""
    return any((Path(__file__).parent / "__pycache__").glob("steps.assemble-*.nbi"))


def warm() -> None:
    """Compiles the kernels into numba's cache on disk."""
    import numpy as np

    from tasks.normalize.columnar.made import Made
    from tasks.normalize.columnar.memory import address
    from tasks.normalize.columnar.scan import scan
    from tasks.normalize.columnar.steps import assemble, observe

    made = Made(0)
    made.fit(0, 0, 0)
    nothing = np.zeros(64, np.int64)
    at = address(nothing)
    scan(at, 0, at, at, at)
    observe(at, at, at)
    assemble(at, 0, at, address(made.table))
