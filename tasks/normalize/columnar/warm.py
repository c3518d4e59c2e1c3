"""Compiling the kernels ahead: some 15 s, once per machine and version."""

import numpy as np

from tasks.normalize.columnar.made import Made
from tasks.normalize.columnar.memory import address
from tasks.normalize.columnar.scan import rests, scan
from tasks.normalize.columnar.steps import assemble, observe


def warm() -> None:
    """Compiles the kernels into numba's cache on disk."""
    made = Made(0)
    made.fit(0, 0, 0)
    nothing = np.zeros(64, np.int64)
    at = address(nothing)
    scan(at, 0, at, at, at)
    rests(at, 0, at)
    observe(at, at, at)
    assemble(at, 0, at, address(made.table))
