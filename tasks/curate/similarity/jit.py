"""A typed door to numba: kernels keep their types, and are compiled once and cached on disk.

Modules that hold kernels import numba on import; selectors import them inside functions, so that the command
line starts without it.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """`function` compiled in nopython mode; it releases the GIL."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written.
        return cast(F, numba.njit(nogil=True)(function))
